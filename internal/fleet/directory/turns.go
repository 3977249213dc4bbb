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

// Turns let one thing at a time happen on a node, whichever process does it: a copy
// for a replica, or a snapshot. Both fork a server, and two forks at once may need
// twice the memory. A [Redis] has them.
type Turns interface {
	// Turn gives the turn of a node to a holder for a while, unless another one has
	// it, and reports whether the holder has it. A life of 0 gives it up.
	Turn(ctx context.Context, node, holder string, life time.Duration) (bool, error)
}

// TurnLife is how long a turn lasts that is not renewed, since its holder died.
const TurnLife = 15 * time.Second

// TakeTurn takes the turn of the node that a member is on, and keeps it until end is
// called or ctx ends; or returns ErrTurn at once. A holder that cannot reach the
// directory for a TurnLife loses it without being told.
func TakeTurn(ctx context.Context, turns Turns, member Member) (end func(), err error) {
	return takeTurn(ctx, turns, member.Machine(), TurnLife)
}

func takeTurn(ctx context.Context, turns Turns, node string, life time.Duration) (end func(), err error) {
	holder := rand.Text()[:12]
	take := func(ctx context.Context, life time.Duration) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, TurnLife/5)
		defer cancel()
		return turns.Turn(ctx, node, holder, life)
	}
	has, err := take(ctx, life)
	switch {
	case err != nil:
		return nil, err
	case !has:
		return nil, ErrTurn
	}
	return renew(ctx, life/3, func(ctx context.Context) { _, _ = take(ctx, life) }, func(ctx context.Context) { _, _ = take(ctx, 0) }), nil
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
func (d *Redis) Turn(ctx context.Context, node, holder string, life time.Duration) (bool, error) {
	reply, _, err := d.write(ctx, "turn", node, holder, strconv.FormatInt(life.Milliseconds(), 10))
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
