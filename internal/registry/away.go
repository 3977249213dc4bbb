package registry

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// away is the backoff after failures.
var away = retry.Policy{Base: time.Second, Max: time.Minute}

// Away is the backoff of something that failed: from a second up to a minute. The zero
// value has not failed.
type Away struct {
	Err error // the last failure

	failures int
	until    time.Time
}

// Failed returns a after another failure.
func (a Away) Failed(err error) Away {
	a.failures++
	if errors.Is(err, context.DeadlineExceeded) {
		a.failures = min(a.failures, 3) // the machine may be loaded: a slice has little time
	}
	return Away{Err: err, failures: a.failures, until: time.Now().Add(away.Pause(a.failures))}
}

// Over reports whether it may be tried again.
func (a Away) Over(now time.Time) bool { return !now.Before(a.until) }
