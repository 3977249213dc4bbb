package bench

import (
	"context"
	_ "embed"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/lease"
)

//go:embed unlock.lua
var unlockSource string

//go:embed extend.lua
var extendSource string

// ttl is longer than any side runs.
const ttl = time.Hour

// leaseFigures have a lease for each goroutine, so that none waits.
func leaseFigures() []Figure {
	return []Figure{
		{Name: "lease_acquire", What: "lease acquire and release, 50 goroutines", Unit: "pairs/s", Sides: []Side{
			{Name: "lease", Measure: Rated(leasePairs)},
			{Name: "SET NX PX, compare and DEL", Measure: Rated(barePairs)},
		}},
		{Name: "lease_refresh", What: "lease refresh, 50 goroutines", Unit: "refreshes/s", Sides: []Side{
			{Name: "lease", Measure: leaseRefreshes},
			{Name: "compare and PEXPIRE", Measure: Rated(bareRefreshes)},
		}},
	}
}

// leaseName is the name of a goroutine's lease.
func leaseName(b *B, goroutine int) string { return b.Name + "-" + strconv.Itoa(goroutine) }

// locker returns a locker for the leases, which are deleted at the end with their entries
// in the index, as docs/WIRE.md has them: a lease leaves its fence when it is released.
func (b *B) locker() *lease.Locker {
	b.deleteAfter(func(ctx context.Context) (int, error) {
		registry.Settle(ctx, b.Client)
		var keys []string
		for i := range Goroutines {
			name := leaseName(b, i)
			keys = append(keys, "mr:lease:{"+name+"}")
			index := registry.LeasesKey(int(crc32.ChecksumIEEE([]byte(name)) % registry.DueShards))
			if err := b.Client.Do(ctx, b.Client.B().Zrem().Key(index).Member(name).Build()).Error(); err != nil {
				return 0, err
			}
		}
		return 0, b.unlink(ctx, keys)
	})
	return must.Get(lease.New(b.Client, lease.Config{}))
}

func leasePairs(_ context.Context, b *B) Op {
	l := b.locker()
	return func(ctx context.Context, goroutine int) error {
		held, err := l.Acquire(ctx, leaseName(b, goroutine), ttl, lease.AcquireConfig{})
		if err != nil {
			return err
		}
		return held.Release(ctx)
	}
}

func leaseRefreshes(ctx context.Context, b *B) float64 {
	l, held := b.locker(), [Goroutines]*lease.Lease{}
	must.Do(Deal(ctx, Goroutines, func(ctx context.Context, i int) (err error) {
		held[i], err = l.Acquire(ctx, leaseName(b, i), ttl, lease.AcquireConfig{})
		return err
	}))
	speed := b.Rate(ctx, Goroutines, func(ctx context.Context, goroutine int) error { return held[goroutine].Refresh(ctx, ttl) })
	must.Do(Deal(ctx, Goroutines, func(ctx context.Context, i int) error { return held[i].Release(ctx) }))
	return speed
}

// lockKeys returns the keys of the goroutines' bare locks, which are deleted at the end.
func (b *B) lockKeys() (keys [Goroutines]string) {
	for i := range keys {
		keys[i] = "{" + leaseName(b, i) + "}:lock"
	}
	b.unlinkAfter(keys[:]...)
	return keys
}

func barePairs(_ context.Context, b *B) Op {
	keys, unlock := b.lockKeys(), rueidis.NewLuaScript(unlockSource)
	return func(ctx context.Context, goroutine int) error {
		key := keys[goroutine]
		if err := lock(ctx, b, key); err != nil {
			return err
		}
		return done(unlock.Exec(ctx, b.Client, []string{key}, []string{key}))
	}
}

func bareRefreshes(ctx context.Context, b *B) Op {
	keys, extend := b.lockKeys(), rueidis.NewLuaScript(extendSource)
	must.Do(Deal(ctx, Goroutines, func(ctx context.Context, i int) error { return lock(ctx, b, keys[i]) }))
	millis := strconv.FormatInt(ttl.Milliseconds(), 10)
	return func(ctx context.Context, goroutine int) error {
		key := keys[goroutine]
		return done(extend.Exec(ctx, b.Client, []string{key}, []string{key, millis}))
	}
}

// lock takes the bare lock of that key, with the key as the token.
func lock(ctx context.Context, b *B, key string) error {
	return b.Client.Do(ctx, b.Client.B().Set().Key(key).Value(key).Nx().Px(ttl).Build()).Error()
}

// done returns an error unless the script replied that it did something.
func done(reply rueidis.RedisResult) error {
	n, err := reply.AsInt64()
	if err == nil && n != 1 {
		err = fmt.Errorf("the script replied %d, want 1", n)
	}
	return err
}
