package demo

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/lease"
)

// rivalNews is what the second holder tells.
type rivalNews struct {
	Tried  int `json:"tried"`  // of each kind
	Locks  int `json:"locks"`  // taken
	Leases int `json:"leases"` // taken
}

// rival is the scene's child: the second holder.
func rival(ctx context.Context, p part) error {
	locker, err := lease.New(p.client, lease.Config{})
	if err != nil {
		return err
	}
	news := rivalNews{Tried: holdings}
	if news.Locks, err = takeLocks(ctx, p.client, p.name, "second"); err != nil {
		return err
	}
	for i := range holdings {
		_, err := locker.Acquire(ctx, leaseName(p.name, i), holdFor, lease.AcquireConfig{Metadata: "second"})
		switch {
		case err == nil:
			news.Leases++
		case !errors.Is(err, lease.ErrHeld):
			return err
		}
	}
	if err := p.report(news); err != nil {
		return err
	}
	<-ctx.Done() // it ends when it is dismissed
	return ctx.Err()
}

// takeLocks takes locks in the usual way and returns how many it got.
func takeLocks(ctx context.Context, client rueidis.Client, name, holder string) (taken int, err error) {
	var locks rueidis.Commands
	for i := range holdings {
		locks = append(locks, client.B().Set().Key(lockKey(name, i)).Value(holder).Nx().Px(holdFor).Build())
	}
	for _, reply := range client.DoMulti(ctx, locks...) {
		switch err := reply.Error(); {
		case err == nil:
			taken++
		case !rueidis.IsRedisNil(err):
			return taken, err
		}
	}
	return taken, nil
}
