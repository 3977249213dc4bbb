package registry

import (
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// away is how long what failed is left alone.
var away = retry.Policy{Base: time.Second, Max: time.Minute}

// Away is what failed, and is left alone for a while: for a second at first, for a minute
// at last. The zero value has not failed.
type Away struct {
	Err error // the last failure

	failures int
	until    time.Time
}

// Failed returns a after another failure.
func (a Away) Failed(err error) Away {
	a.failures++
	return Away{Err: err, failures: a.failures, until: time.Now().Add(away.Pause(a.failures))}
}

// Over reports whether it may be tried again.
func (a Away) Over(now time.Time) bool { return !now.Before(a.until) }
