package directory

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"
)

// Moves is where those who move tags leave word of it, so that somebody finishes
// what was cut off. A [Redis] has them.
type Moves interface {
	// Moving remembers that a run moves tags, and goes on for so long without saying so
	// again. A life of 0 says that it has ended, and left nothing unfinished.
	Moving(ctx context.Context, run string, life time.Duration) error

	// Adopt gives all runs that were cut off to a run that finishes them, as Moving
	// does, and reports whether there were any. It gives none while a run goes on.
	Adopt(ctx context.Context, run string, life time.Duration) (bool, error)
}

// MoveLife is how long a run is waited for that does not say that it goes on.
const MoveLife = 10 * time.Second

// BeginMoves says that tags are being moved, until end is called, or this process
// dies, or is cut off for a MoveLife. Unless end is told that all was finished,
// somebody else finishes it.
func BeginMoves(ctx context.Context, moves Moves) (end func(finished bool), err error) {
	run := rand.Text()[:12]
	if err := moves.Moving(ctx, run, MoveLife); err != nil {
		return nil, err
	}
	return keepMoving(ctx, moves, run), nil
}

// AdoptMoves takes over what was cut off, as BeginMoves does, and reports whether
// there is anything.
func AdoptMoves(ctx context.Context, moves Moves) (end func(finished bool), adopted bool, err error) {
	run := rand.Text()[:12]
	if adopted, err := moves.Adopt(ctx, run, MoveLife); err != nil || !adopted {
		return nil, false, err
	}
	return keepMoving(ctx, moves, run), true, nil
}

func keepMoving(ctx context.Context, moves Moves, run string) (end func(finished bool)) {
	say := func(ctx context.Context, life time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, MoveLife/3)
		defer cancel()
		_ = moves.Moving(ctx, run, life)
	}
	left := time.Millisecond // which is over at once
	stop := renew(ctx, MoveLife/3, func(ctx context.Context) { say(ctx, MoveLife) }, func(ctx context.Context) { say(ctx, left) })
	return func(finished bool) {
		if finished {
			left = 0
		}
		stop()
	}
}

// Moving tells the server that takes writes.
func (d *Redis) Moving(ctx context.Context, run string, life time.Duration) error {
	_, err := d.moving(ctx, run, life, false)
	return err
}

// Adopt asks the server that takes writes.
func (d *Redis) Adopt(ctx context.Context, run string, life time.Duration) (bool, error) {
	return d.moving(ctx, run, life, true)
}

func (d *Redis) moving(ctx context.Context, run string, life time.Duration, adopt bool) (bool, error) {
	only := "0"
	if adopt {
		only = "1"
	}
	reply, _, err := d.write(ctx, "moves", run, strconv.FormatInt(life.Milliseconds(), 10), only)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
