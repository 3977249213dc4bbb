package directory

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"
)

// MoveTTL is how long a run is registered without being renewed.
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
	renewal := func(ctx context.Context, ttl time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, MoveTTL/3)
		defer cancel()
		_ = dir.Moving(ctx, run, ttl)
	}
	left := time.Millisecond // ends at once, and is then adopted
	stop := renew(ctx, MoveTTL/3, func(ctx context.Context) { renewal(ctx, MoveTTL) }, func(ctx context.Context) { renewal(ctx, left) })
	return func(finished bool) {
		if finished {
			left = 0
		}
		stop()
	}
}

// Moving implements Directory.
func (d *Redis) Moving(ctx context.Context, run string, ttl time.Duration) error {
	_, err := d.moving(ctx, run, ttl, false)
	return err
}

// Adopt implements Directory.
func (d *Redis) Adopt(ctx context.Context, run string, ttl time.Duration) (bool, error) {
	return d.moving(ctx, run, ttl, true)
}

func (d *Redis) moving(ctx context.Context, run string, ttl time.Duration, adopt bool) (bool, error) {
	only := "0"
	if adopt {
		only = "1"
	}
	reply, _, err := d.write(ctx, "moves", run, strconv.FormatInt(ttl.Milliseconds(), 10), only)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
