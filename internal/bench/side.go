package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/info"
)

// Goroutines is how many call at once, on every side of a figure.
const Goroutines = 50

// B is for a side what testing.B is for a benchmark: a server, a name, a time, and the
// clean-up at the end.
type B struct {
	Client rueidis.Client
	Name   string        // of the structures; all keys have it in their hash tag
	Time   time.Duration // how long a side runs

	must.Stage // ends with the side
}

// run measures a side, and cleans up behind it also when it fails.
func (b B) run(ctx context.Context, measure Measure) (value float64, err error) {
	b.Stage = must.Stage{}
	defer func() { err = errors.Join(err, b.End(context.WithoutCancel(ctx))) }()
	defer must.Recover(&err)
	return measure(ctx, &b), nil
}

// cleanUpTimeout bounds a clean-up, which a cancel does not end.
const cleanUpTimeout = 10 * time.Second

var errLeft = errors.New("keys could not be deleted and are left")

// deleteAfter deletes the side's keys when it has ended, and none of its calls is in
// progress any more.
func (b *B) deleteAfter(remove func(context.Context) (keys int, err error)) {
	b.Defer(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
		defer cancel()
		if _, err := remove(ctx); err != nil {
			return fmt.Errorf("%w: those of %s: %w", errLeft, b.Name, err)
		}
		return nil
	})
}

// unlinkAfter deletes keys, which may be on many servers, when the side has ended.
func (b *B) unlinkAfter(keys ...string) {
	b.deleteAfter(func(ctx context.Context) (int, error) { return 0, b.unlink(ctx, keys) })
}

func (b *B) unlink(ctx context.Context, keys []string) error {
	unlinks := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		unlinks[i] = b.Client.B().Unlink().Key(key).Build()
	}
	return FirstError(b.Client.DoMulti(ctx, unlinks...))
}

// Op is the operation that all goroutines of a side repeat.
type Op func(ctx context.Context, goroutine int) error

// Rated measures how often a second goroutines can run the Op that prepare returns.
func Rated(prepare func(ctx context.Context, b *B) Op) Measure {
	return func(ctx context.Context, b *B) float64 { return b.Rate(ctx, Goroutines, prepare(ctx, b)) }
}

// Rate calls do from so many goroutines until the time is over, and returns calls a second.
// It has called do for a tenth of the time before: connections are opened and scripts
// compiled then.
//
// When ctx ends, no further call begins, and those in progress are finished, so that
// nothing arrives at the server afterwards: the context of do does not end.
func (b *B) Rate(ctx context.Context, goroutines int, do Op) float64 {
	must.Get(rate(ctx, goroutines, b.Time/10, do))
	return must.Get(rate(ctx, goroutines, b.Time, do))
}

func rate(ctx context.Context, goroutines int, length time.Duration, do Op) (float64, error) {
	var calls atomic.Int64
	start := time.Now()
	err := each(ctx, goroutines, func(ctx context.Context, goroutine int, ended func() bool) error {
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
	err := each(ctx, Goroutines, func(ctx context.Context, _ int, ended func() bool) error {
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

// each calls do once in each of so many goroutines, with a context that does not end, and
// returns the first error, or why ctx ended. ended reports that either has happened.
func each(ctx context.Context, goroutines int, do func(ctx context.Context, goroutine int, ended func() bool) error) error {
	var all sync.WaitGroup
	var first atomic.Pointer[error]
	ended := func() bool { return ctx.Err() != nil || first.Load() != nil }
	for i := range goroutines {
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
func (b *B) Scaled(n int) int { return max(1, int(float64(n)*min(1, b.Time.Seconds()))) }

// key returns a key that is no structure's, with the name as its hash tag.
func (b *B) key(part string) string { return "{" + b.Name + "}:" + part }

// roundTrip returns how long a command takes that does nothing: the median of some.
func roundTrip(ctx context.Context, b *B) (time.Duration, error) {
	took := make([]time.Duration, 21)
	for i := range took {
		start := time.Now()
		if err := b.Client.Do(ctx, b.Client.B().Exists().Key(b.key("none")).Build()).Error(); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	return must.Quantile(took, 0.5), nil
}

// QuantileOf measures a quantile of times, in a unit.
func QuantileOf(q float64, unit time.Duration, times func(context.Context, *B) []time.Duration) Measure {
	return func(ctx context.Context, b *B) float64 {
		return float64(must.Quantile(times(ctx, b), q)) / float64(unit)
	}
}

// Info returns a number that a server reports about itself.
func Info(ctx context.Context, c rueidis.Client, section, field string) float64 {
	fields := info.Parse(must.Get(c.Do(ctx, c.B().Info().Section(section).Build()).ToString()))
	return must.Get(strconv.ParseFloat(fields[field], 64))
}

// FirstError returns the first error among replies.
func FirstError(replies []rueidis.RedisResult) error {
	i := slices.IndexFunc(replies, func(r rueidis.RedisResult) bool { return r.Error() != nil })
	if i < 0 {
		return nil
	}
	return replies[i].Error()
}
