package snapshot

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// turn takes the turn of a node, in this process and among all. It waits for this
// process only.
func (k *Keeper) turn(ctx context.Context, node string) (end func(), err error) {
	ours := func() {}
	if k.cfg.Turns != nil {
		if ours, err = k.cfg.Turns.Take(ctx, node); err != nil {
			return nil, err
		}
	}
	holder := rand.Text()[:12]
	take := func(ctx context.Context, life time.Duration) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, k.turnLife/5)
		defer cancel()
		return k.desk.Turn(ctx, node, holder, life)
	}
	if has, err := take(ctx, k.turnLife); err != nil || !has {
		ours()
		return nil, errBusy
	}
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for retry.Sleep(renewing, k.turnLife/3) {
			// If that fails for long, somebody else may take the turn. He sees that a server
			// is at work.
			_, _ = take(renewing, k.turnLife)
		}
	})
	return func() {
		stop()
		renewal.Wait()
		_, _ = take(context.WithoutCancel(ctx), 0) // it ends by itself, too
		ours()
	}, nil
}
