package redistest_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// releases counts releases of leases that were answered.
type releases struct{ n atomic.Int64 }

func (r *releases) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	return ctx, func(err error) {
		if call.Script == "lease.release" && err == nil {
			r.n.Add(1)
		}
	}
}

// TestLeasesAreGivenBackBeforeTheEnd: an acquire that was sent and got no answer is given back in the background, in two
// calls with a pause between. The end of the tests waits for both.
func TestLeasesAreGivenBackBeforeTheEnd(t *testing.T) { //nolint:paralleltest // it looks at all goroutines
	proxy := redistest.NewProxy(t, redistest.Start(t, redistest.Options{}).Addr())
	answered := &releases{}
	l, err := lease.New(proxy.Client(t), lease.Config{Hooks: []millrace.Hook{answered}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), "other", time.Minute, lease.AcquireConfig{}); err != nil {
		t.Fatal(err) // it loads the script
	}
	ctx, cancel := context.WithCancel(t.Context())
	proxy.DropRequest(func(cmd []string) bool {
		acquires := strings.EqualFold(cmd[0], "EVALSHA") && ctx.Err() == nil
		if acquires {
			cancel()
		}
		return acquires
	})
	if _, err := l.Acquire(ctx, "name", time.Minute, lease.AcquireConfig{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire = %v, want %v", err, context.Canceled)
	}
	redistest.Eventually(t, "the first release is answered", func() bool { return answered.n.Load() == 1 })
	redistest.AwaitRepeats()
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := answered.n.Load(); n != 2 || bytes.Contains(stacks, []byte("giveBack")) {
		t.Errorf("%d of 2 releases are answered at the end of the tests", n)
	}
}
