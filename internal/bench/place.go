package bench

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// Goroutines is how many call at once, on every side of a figure.
const Goroutines = 50

// Place is where sides run.
type Place struct {
	Client rueidis.Client
	Name   string        // of the structures; all keys have it in their hash tag
	Time   time.Duration // how long a side runs

	// Open opens another client of the same server. Without it figures with many
	// clients are not measured.
	Open func() (rueidis.Client, error)
}

// errOneClient means that a figure needs clients that a place has not.
var errOneClient = &millrace.Error{
	Code:    "one_client",
	Message: "there is one client only",
	Hint:    "It is measured on a server, and not on a fleet, whose processes have many connections each.",
}

// clients opens a client for each goroutine.
func (p Place) clients() (list []rueidis.Client, done func(), err error) {
	done = func() {
		for _, c := range list {
			c.Close()
		}
	}
	if p.Open == nil {
		return nil, nil, errOneClient
	}
	for range Goroutines {
		c, err := p.Open()
		if err != nil {
			done()
			return nil, nil, err
		}
		list = append(list, c)
	}
	return list, done, nil
}

// Rate calls do from all goroutines, with the goroutine's number, until the time is
// over, and returns calls a second. It has called do for a tenth of the time before:
// connections are opened and scripts compiled then.
//
// When ctx ends, no further call begins, and those under way are finished, so that
// nothing arrives at the server afterwards: the context of do does not end.
func (p Place) Rate(ctx context.Context, do func(ctx context.Context, goroutine int) error) (float64, error) {
	if _, err := rate(ctx, p.Time/10, do); err != nil {
		return 0, err
	}
	return rate(ctx, p.Time, do)
}

func rate(ctx context.Context, length time.Duration, do func(ctx context.Context, goroutine int) error) (float64, error) {
	var calls atomic.Int64
	start := time.Now()
	err := each(ctx, func(ctx context.Context, goroutine int, ended func() bool) error {
		n := int64(0)
		defer func() { calls.Add(n) }()
		for !ended() && (n == 0 || time.Since(start) < length) {
			if err := do(ctx, goroutine); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return float64(calls.Load()) / time.Since(start).Seconds(), err
}

// Deal calls do with each number below n, from all goroutines, in about their order.
// It ends with ctx as Rate does.
func Deal(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	_, err := dealUntil(ctx, time.Time{}, n, do)
	return err
}

// dealUntil is Deal until the time is over, if there is one, and returns how many
// calls there were.
func dealUntil(ctx context.Context, end time.Time, n int, do func(ctx context.Context, i int) error) (int, error) {
	var next, done atomic.Int64
	err := each(ctx, func(ctx context.Context, _ int, ended func() bool) error {
		for i := int(next.Add(1)) - 1; i < n && !ended(); i = int(next.Add(1)) - 1 {
			if err := do(ctx, i); err != nil {
				return err
			}
			done.Add(1)
			if !end.IsZero() && time.Now().After(end) {
				return nil
			}
		}
		return nil
	})
	return int(done.Load()), err
}

// each calls do once in each of the goroutines, with a context that does not end, and
// returns the first error, or why ctx ended. It tells them when either has happened.
func each(ctx context.Context, do func(ctx context.Context, goroutine int, ended func() bool) error) error {
	var all sync.WaitGroup
	var first atomic.Pointer[error]
	ended := func() bool { return ctx.Err() != nil || first.Load() != nil }
	for i := range Goroutines {
		all.Go(func() {
			if err := do(context.WithoutCancel(ctx), i, ended); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return context.Cause(ctx)
}

// Scaled returns an amount for sides that run for a second or longer, and less for
// shorter ones.
func (p Place) Scaled(n int) int {
	return max(1, int(float64(n)*min(1, p.Time.Seconds())))
}

// key returns a key that is no structure's, with the name as its hash tag.
func (p Place) key(part string) string { return "{" + p.Name + "}:" + part }

// cleanUpTimeout bounds a clean-up, which a cancel does not end.
const cleanUpTimeout = 10 * time.Second

var errLeft = errors.New("keys could not be deleted and are left")

// cleanUp deletes what a side wrote, when none of its calls is under way any more.
func (p Place) cleanUp(ctx context.Context, remove func(context.Context) (keys int, err error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	if _, err := remove(ctx); err != nil {
		return fmt.Errorf("%w: those of %s: %w", errLeft, p.Name, err)
	}
	return nil
}

// unlink deletes keys, which may be on many servers, and returns how many there
// were.
func (p Place) unlink(keys ...string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		commands := make(rueidis.Commands, len(keys))
		for i, key := range keys {
			commands[i] = p.Client.B().Unlink().Key(key).Build()
		}
		replies := p.Client.DoMulti(ctx, commands...)
		if err := FirstError(replies); err != nil {
			return 0, err
		}
		n := int64(0)
		for _, reply := range replies {
			one, err := reply.AsInt64()
			if err != nil {
				return 0, err
			}
			n += one
		}
		return int(n), nil
	}
}

// unlinkLeases deletes leases, and their entries in the index.
func (p Place) unlinkLeases(names ...string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		registry.Settle(ctx, p.Client)
		var keys []string
		for _, name := range names { // docs/WIRE.md tells what lies there
			keys = append(keys, "mr:lease:{"+name+"}")
			index := registry.LeasesKey(int(crc32.ChecksumIEEE([]byte(name)) % registry.DueShards))
			if err := p.Client.Do(ctx, p.Client.B().Zrem().Key(index).Member(name).Build()).Error(); err != nil {
				return 0, err
			}
		}
		return p.unlink(keys...)(ctx)
	}
}

// beside measures on keys that are no structure's, and deletes them.
func beside(measure Measure, keys func(p Place) []string) Measure {
	return func(ctx context.Context, p Place) (value float64, err error) {
		defer func() { err = errors.Join(err, p.cleanUp(ctx, p.unlink(keys(p)...))) }()
		return measure(ctx, p)
	}
}

// FirstError returns the first error among replies.
func FirstError(replies []rueidis.RedisResult) error {
	i := slices.IndexFunc(replies, func(r rueidis.RedisResult) bool { return r.Error() != nil })
	if i < 0 {
		return nil
	}
	return replies[i].Error()
}
