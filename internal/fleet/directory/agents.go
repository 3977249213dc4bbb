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

// SettleTime is how long a former server of the directory may confirm old maps: until
// min-replicas-to-write stops it, with a min-replicas-max-lag of 2 seconds.
const SettleTime = 4 * time.Second

// Always is the settled time of the first server.
const Always = 24 * time.Hour

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Lead implements Directory.
func (d *Redis) Lead(ctx context.Context, agent string, ttl time.Duration) (leads bool, settled time.Duration, err error) {
	reply, _, err := d.write(ctx, "lead", agent, milliseconds(ttl))
	if err != nil {
		return false, 0, err
	}
	leads, _ = reply.Bool(), reply.Text()
	settled = Always
	if ms := reply.Int(); ms >= 0 {
		settled = time.Duration(ms) * time.Millisecond
	}
	return leads, settled, reply.Err()
}

// Turn implements Directory.
func (d *Redis) Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error) {
	return d.decide(ctx, "turn", node, holder, milliseconds(ttl))
}

// Moving implements Directory.
func (d *Redis) Moving(ctx context.Context, run string, ttl time.Duration) error {
	_, err := d.decide(ctx, "moves", run, milliseconds(ttl), "0")
	return err
}

// Adopt implements Directory.
func (d *Redis) Adopt(ctx context.Context, run string, ttl time.Duration) (bool, error) {
	return d.decide(ctx, "moves", run, milliseconds(ttl), "1")
}

// decide runs a script whose reply is yes or no.
func (d *Redis) decide(ctx context.Context, name string, args ...string) (bool, error) {
	reply, _, err := d.write(ctx, name, args...)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// ErrTurn means that another process has the turn of a node.
var ErrTurn = &millrace.Error{
	Code:    "busy",
	Message: "another process has the turn of the node",
	Hint:    "Try again in a moment: a copy or a snapshot is being made there.",
}

// TurnTTL is how long a turn lasts unless it is renewed.
const TurnTTL = 15 * time.Second

// TakeTurn takes the turn of a member's node, and renews it until end is called or ctx
// ends; or it returns ErrTurn at once. A holder that cannot reach the directory for
// TurnTTL loses the turn without notice.
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

// MoveTTL is how long a run is registered unless it is renewed.
const MoveTTL = 10 * time.Second

// BeginMoves registers a run that moves tags, and renews it until end is called. Unless
// end is called with finished, an agent finishes the run after its TTL.
func BeginMoves(ctx context.Context, dir Directory) (end func(finished bool), err error) {
	run := rand.Text()[:12]
	if err := dir.Moving(ctx, run, MoveTTL); err != nil {
		return nil, err
	}
	return keepMoving(ctx, dir, run), nil
}

// AdoptMoves takes over the runs whose TTL has ended, as BeginMoves does, and reports
// whether there are any.
func AdoptMoves(ctx context.Context, dir Directory) (end func(finished bool), adopted bool, err error) {
	run := rand.Text()[:12]
	if adopted, err := dir.Adopt(ctx, run, MoveTTL); err != nil || !adopted {
		return nil, false, err
	}
	return keepMoving(ctx, dir, run), true, nil
}

func keepMoving(ctx context.Context, dir Directory, run string) (end func(finished bool)) {
	register := func(ctx context.Context, ttl time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, MoveTTL/3)
		defer cancel()
		_ = dir.Moving(ctx, run, ttl)
	}
	left := time.Millisecond // expires at once, and is then adopted
	stop := renew(ctx, MoveTTL/3, func(ctx context.Context) { register(ctx, MoveTTL) }, func(ctx context.Context) { register(ctx, left) })
	return func(finished bool) {
		if finished {
			left = 0
		}
		stop()
	}
}

// renew calls again at an interval until end is called, which calls last. Errors are
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
