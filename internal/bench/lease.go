package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/lease"
)

//go:embed unlock.lua
var unlockSource string

//go:embed extend.lua
var extendSource string

// ttl is longer than any side runs.
const ttl = time.Hour

// Each goroutine has a lease of its own, so none waits.
func leaseFigures() []Figure {
	return []Figure{
		{Name: "lease_acquire", What: "lease acquire and release, 50 goroutines", Unit: "pairs/s", Sides: []Side{
			{Name: "lease", Measure: onLeases(leasePairs)},
			{Name: "SET NX PX, compare and DEL", Measure: beside(barePairs, locks)},
		}},
		{Name: "lease_refresh", What: "lease refresh, 50 goroutines", Unit: "refreshes/s", Sides: []Side{
			{Name: "lease", Measure: onLeases(leaseRefreshes)},
			{Name: "compare and PEXPIRE", Measure: beside(bareRefreshes, locks)},
		}},
	}
}

// leaseName is the name of a goroutine's lease.
func leaseName(p Place, goroutine int) string { return p.Name + "-" + strconv.Itoa(goroutine) }

// onLeases measures on leases, and deletes them: what is left of a lease when it is
// released is its fence.
func onLeases(measure func(ctx context.Context, p Place, l *lease.Locker) (float64, error)) Measure {
	return func(ctx context.Context, p Place) (value float64, err error) {
		l, err := lease.New(p.Client, lease.Config{})
		if err != nil {
			return 0, err
		}
		var names []string
		for i := range Goroutines {
			names = append(names, leaseName(p, i))
		}
		defer func() { err = errors.Join(err, p.cleanUp(ctx, p.unlinkLeases(names...))) }()
		return measure(ctx, p, l)
	}
}

func leasePairs(ctx context.Context, p Place, l *lease.Locker) (float64, error) {
	return p.Rate(ctx, func(ctx context.Context, goroutine int) error {
		held, err := l.Acquire(ctx, leaseName(p, goroutine), ttl, lease.AcquireConfig{})
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

func leaseRefreshes(ctx context.Context, p Place, l *lease.Locker) (float64, error) {
	var held [Goroutines]*lease.Lease
	if err := Deal(ctx, Goroutines, func(ctx context.Context, i int) (err error) {
		held[i], err = l.Acquire(ctx, leaseName(p, i), ttl, lease.AcquireConfig{})
		return err
	}); err != nil {
		return 0, err
	}
	speed, err := p.Rate(ctx, func(ctx context.Context, goroutine int) error { return held[goroutine].Refresh(ctx, ttl) })
	if err != nil {
		return 0, err
	}
	return speed, Deal(ctx, Goroutines, func(ctx context.Context, i int) error { return held[i].Release(ctx) })
}

// lockKey is the key of a goroutine's bare lock.
func lockKey(p Place, goroutine int) string { return "{" + leaseName(p, goroutine) + "}:lock" }

func locks(p Place) []string {
	keys := make([]string, Goroutines)
	for i := range keys {
		keys[i] = lockKey(p, i)
	}
	return keys
}

func barePairs(ctx context.Context, p Place) (float64, error) {
	unlock := rueidis.NewLuaScript(unlockSource)
	return p.Rate(ctx, func(ctx context.Context, goroutine int) error {
		key := lockKey(p, goroutine)
		if err := lock(ctx, p, key); err != nil {
			return err
		}
		return done(unlock.Exec(ctx, p.Client, []string{key}, []string{key}))
	})
}

func bareRefreshes(ctx context.Context, p Place) (float64, error) {
	if err := Deal(ctx, Goroutines, func(ctx context.Context, i int) error { return lock(ctx, p, lockKey(p, i)) }); err != nil {
		return 0, err
	}
	extend := rueidis.NewLuaScript(extendSource)
	millis := strconv.FormatInt(ttl.Milliseconds(), 10)
	return p.Rate(ctx, func(ctx context.Context, goroutine int) error {
		key := lockKey(p, goroutine)
		return done(extend.Exec(ctx, p.Client, []string{key}, []string{key, millis}))
	})
}

// lock takes the bare lock of that key, with the key as the token.
func lock(ctx context.Context, p Place, key string) error {
	return p.Client.Do(ctx, p.Client.B().Set().Key(key).Value(key).Nx().Px(ttl).Build()).Error()
}

// done returns an error unless the script answered that it did something.
func done(reply rueidis.RedisResult) error {
	n, err := reply.AsInt64()
	if err == nil && n != 1 {
		err = fmt.Errorf("the script answered %d, want 1", n)
	}
	return err
}
