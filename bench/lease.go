package main

import (
	"context"
	_ "embed"
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

// Each goroutine has a lease of its own, so nobody waits for anybody.
func leaseRows() []row {
	return []row{
		{name: "lease acquire and release, 50 goroutines", unit: "pairs/s", sides: []side{
			{name: "lease", figure: leasePairs},
			{name: "SET NX PX, compare and DEL", figure: barePairs},
		}},
		{name: "lease refresh, 50 goroutines", unit: "refreshes/s", sides: []side{
			{name: "lease", figure: leaseRefreshes},
			{name: "compare and PEXPIRE", figure: bareRefreshes},
		}},
	}
}

func leasePairs(ctx context.Context, s setup) (float64, error) {
	l, err := emptyLocker(ctx, s)
	if err != nil {
		return 0, err
	}
	return concurrently(s, func(goroutine int) error {
		held, err := l.Acquire(ctx, strconv.Itoa(goroutine), ttl, lease.Options{})
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
}

func leaseRefreshes(ctx context.Context, s setup) (float64, error) {
	l, err := emptyLocker(ctx, s)
	if err != nil {
		return 0, err
	}
	var held [goroutines]*lease.Lease
	for i := range held {
		if held[i], err = l.Acquire(ctx, strconv.Itoa(i), ttl, lease.Options{}); err != nil {
			return 0, err
		}
	}
	speed, err := concurrently(s, func(goroutine int) error { return held[goroutine].Refresh(ctx, ttl) })
	for _, one := range held {
		if err == nil {
			err = one.Release(ctx)
		}
	}
	return speed, err
}

func emptyLocker(ctx context.Context, s setup) (*lease.Locker, error) {
	if err := empty(ctx, s); err != nil {
		return nil, err
	}
	return lease.New(s.client, lease.Config{})
}

func barePairs(ctx context.Context, s setup) (float64, error) {
	if err := empty(ctx, s); err != nil {
		return 0, err
	}
	unlock := rueidis.NewLuaScript(unlockSource)
	return concurrently(s, func(goroutine int) error {
		key := strconv.Itoa(goroutine)
		if err := lock(ctx, s, key); err != nil {
			return err
		}
		return done(unlock.Exec(ctx, s.client, []string{key}, []string{key}))
	})
}

func bareRefreshes(ctx context.Context, s setup) (float64, error) {
	if err := empty(ctx, s); err != nil {
		return 0, err
	}
	for i := range goroutines {
		if err := lock(ctx, s, strconv.Itoa(i)); err != nil {
			return 0, err
		}
	}
	extend := rueidis.NewLuaScript(extendSource)
	millis := strconv.FormatInt(ttl.Milliseconds(), 10)
	return concurrently(s, func(goroutine int) error {
		key := strconv.Itoa(goroutine)
		return done(extend.Exec(ctx, s.client, []string{key}, []string{key, millis}))
	})
}

// lock takes the bare lock of that key, with the key as the token.
func lock(ctx context.Context, s setup, key string) error {
	return s.client.Do(ctx, s.client.B().Set().Key(key).Value(key).Nx().Px(ttl).Build()).Error()
}

// done returns an error unless the script answered that it did something.
func done(reply rueidis.RedisResult) error {
	n, err := reply.AsInt64()
	if err == nil && n != 1 {
		err = fmt.Errorf("the script answered %d, want 1", n)
	}
	return err
}
