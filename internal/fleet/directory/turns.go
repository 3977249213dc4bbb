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

// ErrTurn means that it is another one's turn on a node.
var ErrTurn = &millrace.Error{
	Code:    "busy",
	Message: "it is another one's turn on the node",
	Hint:    "Try again in a moment: a copy or a snapshot is being made there.",
}

// TurnTTL is how long a turn lasts that is not renewed, since its holder died.
const TurnTTL = 15 * time.Second

// TakeTurn takes the turn of the node that a member is on, and keeps it until end is
// called or ctx ends; or returns ErrTurn at once. A holder that cannot reach the
// directory for a TurnTTL loses it without being told.
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

// renew does something again and again until the function that it returns is called,
// and another thing then. What fails is left: the next one may do, and what has
// begun ends by itself, too.
func renew(ctx context.Context, every time.Duration, again, last func(context.Context)) (end func()) {
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for retry.Sleep(renewing, every) {
			again(renewing)
		}
	})
	return func() {
		stop()
		renewal.Wait()
		last(context.WithoutCancel(ctx))
	}
}

// Turn asks the server that takes writes.
func (d *Redis) Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error) {
	reply, _, err := d.write(ctx, "turn", node, holder, strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
