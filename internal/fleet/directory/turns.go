package directory

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
)

// ErrTurn means that another process has the turn of a node.
var ErrTurn = &millrace.Error{
	Code:    "busy",
	Message: "another process has the turn of the node",
	Hint:    "Try again in a moment: a copy or a snapshot is being made there.",
}

// TurnTTL is how long a turn lasts without being renewed.
const TurnTTL = 15 * time.Second

// TakeTurn takes the turn of a member's node, and renews it until end is called or ctx
// ends; or returns ErrTurn at once. A holder that cannot reach the directory for TurnTTL
// loses the turn without notice.
func TakeTurn(ctx context.Context, dir Directory, member Member) (end func(), err error) {
	return takeTurn(ctx, dir, member.Machine(), TurnTTL)
}

func takeTurn(ctx context.Context, dir Directory, node string, ttl time.Duration) (end func(), err error) {
	holder := rand.Text()[:12]
	take := func(ctx context.Context, ttl time.Duration) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, TurnTTL/5)
		defer cancel()
		return dir.Turn(ctx, node, holder, ttl)
	}
	has, err := take(ctx, ttl)
	switch {
	case err != nil:
		return nil, err
	case !has:
		return nil, ErrTurn
	}
	return renew(ctx, ttl/3, func(ctx context.Context) { _, _ = take(ctx, ttl) }, func(ctx context.Context) { _, _ = take(ctx, 0) }), nil
}

// renew calls again at an interval until end is called, and then last. Errors are
// ignored: the next call may succeed, and registrations expire by themselves.
func renew(ctx context.Context, interval time.Duration, again, last func(context.Context)) (end func()) {
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for retry.Sleep(renewing, interval) {
			again(renewing)
		}
	})
	return func() {
		stop()
		renewal.Wait()
		last(context.WithoutCancel(ctx))
	}
}

// Turn implements Directory.
func (d *Redis) Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error) {
	reply, _, err := d.write(ctx, "turn", node, holder, strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
