package directory

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
)

// ErrTurn means that another process has the turn of a node.
var ErrTurn = &millrace.Error{
	Code:    "busy",
	Message: "another process has the turn of the node",
	Hint:    "Try again in a moment: a copy or a snapshot is being made there.",
}

// TurnTTL is how long a turn lasts unless it is renewed.
const TurnTTL = 15 * time.Second

// Turn gives the turn of a node to a holder for a TTL, unless another one has it, and
// reports whether the holder has it. A TTL of 0 gives it up. Copies and snapshots need
// the turn of their node: both fork a server, and two forks may need twice the memory.
func (d *Directory) Turn(ctx context.Context, node, holder string, ttl time.Duration) (bool, error) {
	return d.hold(ctx, "turn/"+node, holder, ttl)
}

// TakeTurn takes the turn of a member's node, and renews it until end is called or ctx
// ends; or it returns ErrTurn at once. A holder that cannot reach the directory for
// TurnTTL loses the turn without notice.
func TakeTurn(ctx context.Context, dir *Directory, member Member) (end func(), err error) {
	return takeTurn(ctx, dir, member.Machine(), TurnTTL)
}

func takeTurn(ctx context.Context, dir *Directory, node string, ttl time.Duration) (end func(), err error) {
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

// Runs that move tags are a list of their names, and each run that goes on holds its name. A
// listed run that no longer does was cut off.

// MoveTTL is how long a run holds its name unless it renews that.
const MoveTTL = 10 * time.Second

// Unfinished lists a run that has left something for an agent to finish. Its name has no spaces.
func (d *Directory) Unfinished(ctx context.Context, run string) error {
	return d.edit(ctx, "moves", func(text string) (string, error) {
		runs := strings.Fields(text)
		if slices.Contains(runs, run) {
			return text, nil
		}
		return strings.Join(append(runs, run), " "), nil
	})
}

// finished takes a run from the list.
func (d *Directory) finished(ctx context.Context, run string) error {
	return d.edit(ctx, "moves", func(text string) (string, error) {
		return strings.Join(slices.DeleteFunc(strings.Fields(text), func(r string) bool { return r == run }), " "), nil
	})
}

// BeginMoves lists a run that moves tags, and holds its name until end is called. Unless
// end is called with finished, an agent finishes the run, at the latest after MoveTTL.
func BeginMoves(ctx context.Context, dir *Directory) (end func(finished bool), err error) {
	run := rand.Text()[:12]
	if _, err := dir.hold(ctx, "run/"+run, run, MoveTTL); err != nil {
		return nil, err
	}
	if err := dir.Unfinished(ctx, run); err != nil {
		return nil, err
	}
	return dir.moving(ctx, run), nil
}

// AdoptMoves takes over all runs that were cut off, as BeginMoves does, and reports whether
// there are any. It does nothing while another run goes on, which might move the same tags.
func AdoptMoves(ctx context.Context, dir *Directory) (end func(finished bool), adopted bool, err error) {
	run := rand.Text()[:12]
	if adopted, err := dir.adopt(ctx, run); err != nil || !adopted {
		return nil, false, err
	}
	return dir.moving(ctx, run), true, nil
}

// adopt lists a run in place of all others. It does so only while it holds their names, too:
// of several that adopt at the same time at most one does.
func (d *Directory) adopt(ctx context.Context, run string) (adopted bool, err error) {
	var taken []string
	err = d.edit(ctx, "moves", func(text string) (string, error) {
		adopted = false
		runs := strings.Fields(text)
		if len(runs) == 0 {
			return text, nil
		}
		for _, other := range append(runs, run) {
			if has, err := d.hold(ctx, "run/"+other, run, MoveTTL); err != nil || !has {
				return text, err
			}
			taken = append(taken, other)
		}
		adopted = true
		return run, nil
	})
	adopted = adopted && err == nil
	for _, other := range taken {
		if other != run || !adopted {
			_, _ = d.hold(ctx, "run/"+other, run, 0) // else it ends by itself
		}
	}
	return adopted, err
}

// moving keeps a run listed and its name held until end is called. An agent that took the run for
// dead, because the process was stopped for a while, has taken it from the list.
func (d *Directory) moving(ctx context.Context, run string) (end func(finished bool)) {
	keep := func(ctx context.Context, list func(context.Context, string) error, ttl time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, MoveTTL/3)
		defer cancel()
		_ = list(ctx, run) // if a finished run stays, an agent finds nothing to finish
		_, _ = d.hold(ctx, "run/"+run, run, ttl)
	}
	last := d.Unfinished
	stop := renew(ctx, MoveTTL/3, func(ctx context.Context) { keep(ctx, d.Unfinished, MoveTTL) }, func(ctx context.Context) { keep(ctx, last, 0) })
	return func(finished bool) {
		if finished {
			last = d.finished
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
