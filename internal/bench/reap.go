package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	hotFields  = 200_000 // expired
	hotWriters = 10
	hotEvery   = time.Second / 1000
	loadAtOnce = 1000
)

// reaping is the outcome of slices.
type reaping struct {
	fields          int // removed
	slices, aborted int
	took            time.Duration
}

// throughput is fields a second, and undisturbed the per cent of slices that were not aborted.
func (r reaping) throughput() float64  { return float64(r.fields) / r.took.Seconds() }
func (r reaping) undisturbed() float64 { return 100 * float64(r.slices-r.aborted) / float64(r.slices) }

// reapFigure compares the job with a reaper without scripts.
func reapFigure(name, what, unit string, of func(reaping) float64) Figure {
	measure := func(reap func(context.Context, *B) reaping) Measure {
		return func(ctx context.Context, b *B) float64 { return of(reap(ctx, b)) }
	}
	return Figure{Name: name, What: what, Unit: unit, Once: true, Sides: []Side{
		{Name: "reap job", Measure: measure(reapJob)},
		{Name: "WATCH and MULTI, 5 fields", Measure: measure(watchReap(5))},
		{Name: "WATCH and MULTI, 100 fields", Measure: measure(watchReap(100))},
	}}
}

// reapJob reaps with the job. The namespace has one shard, so that there is one
// call a slice, as with WATCH, and one hash. docs/WIRE.md has the keys and the format.
func reapJob(ctx context.Context, b *B) reaping {
	h, name := b.hashes(ctx, expiry.Config{Shards: 1}), hashName(0)
	must.Get(h.Set(ctx, name, stayingField, []byte(fieldValue), expiry.SetConfig{TTL: ttl}))
	base := fmt.Sprintf("mr:hash:{%s/0}", b.Name)
	hot := hotHash{values: base + ":h:" + name, deadlines: base + ":t:" + name, stored: func(deadline int64) string {
		head := binary.BigEndian.AppendUint64(nil, uint64(deadline))
		head[0], head[1] = 250, 2
		return string(head) + fieldValue
	}}
	hot.fill(ctx, b)
	must.Do(b.Client.Do(ctx, b.Client.B().Zadd().Key(base+":due").ScoreMember().ScoreMember(0, name).Build()).Error())
	job := h.Jobs()[0]
	r := hot.underWrites(ctx, b, func(ctx context.Context) (int, bool) {
		return int(must.Get(job.Slice(ctx))), false // 0 for millrace.Idle; the fields are counted below
	})
	r.fields = int(must.Get(h.Stats(ctx)).Reaped)
	return r
}

// watchReap reaps without scripts: it looks up expired fields, and removes them unless another
// client has written to the hash meanwhile.
func watchReap(atOnce int64) func(context.Context, *B) reaping {
	return func(ctx context.Context, b *B) reaping {
		tag := "{" + b.Name + "/0}" // that of the shard
		hot := hotHash{values: tag + ":values", deadlines: tag + ":deadlines", stored: func(int64) string { return fieldValue }}
		b.unlinkAfter(hot.values, hot.deadlines)
		hot.fill(ctx, b)
		c, release := b.Client.Dedicate()
		defer release()
		return hot.underWrites(ctx, b, func(ctx context.Context) (int, bool) { return hot.watchSlice(ctx, c, atOnce) })
	}
}

// hotHash is a hash with many expired fields, stored as two plain keys.
type hotHash struct {
	values, deadlines string
	stored            func(deadline int64) string // the stored value of a field with that deadline
}

func (hot hotHash) watchSlice(ctx context.Context, c rueidis.DedicatedClient, atOnce int64) (fields int, aborted bool) {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	must.Do(c.Do(ctx, c.B().Watch().Key(hot.values, hot.deadlines).Build()).Error())
	gone := must.Get(c.Do(ctx, c.B().Zrange().Key(hot.deadlines).Min("-inf").Max(now).Byscore().Limit(0, atOnce).Build()).AsStrSlice())
	if len(gone) == 0 {
		return 0, false
	}
	replies := c.DoMulti(ctx,
		c.B().Multi().Build(),
		c.B().Hdel().Key(hot.values).Field(gone...).Build(),
		c.B().Zrem().Key(hot.deadlines).Member(gone...).Build(),
		c.B().Exec().Build())
	err := replies[len(replies)-1].Error()
	if rueidis.IsRedisNil(err) {
		return 0, true
	}
	must.Do(err)
	return len(gone), false
}

// fill stores the expired fields.
func (hot hotHash) fill(ctx context.Context, b *B) {
	n, past := max(loadAtOnce, b.Scaled(hotFields)), time.Now().Add(-time.Minute).UnixMilli()
	for first := 0; first < n; first += loadAtOnce {
		must.Do(context.Cause(ctx))
		hset, zadd := b.Client.B().Hset().Key(hot.values).FieldValue(), b.Client.B().Zadd().Key(hot.deadlines).ScoreMember()
		for i := first; i < first+loadAtOnce; i++ {
			hset, zadd = hset.FieldValue(fieldName(i), hot.stored(past)), zadd.ScoreMember(float64(past), fieldName(i))
		}
		must.Do(firstError(b.Client.DoMulti(context.WithoutCancel(ctx), hset.Build(), zadd.Build()))) // none is cut off
	}
}

// underWrites calls slice while fields of the hash are written that do not expire
// meanwhile, until the time is over or it removes none without being aborted.
func (hot hotHash) underWrites(ctx context.Context, b *B, slice func(context.Context) (fields int, aborted bool)) (r reaping) {
	calls := context.WithoutCancel(ctx) // none is cut off
	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	var failed atomic.Pointer[error]
	for range hotWriters {
		writers.Go(func() {
			for next := time.Now(); retry.Sleep(writing, time.Until(next)); {
				field, later := fieldName(-1-rand.IntN(1000)), time.Now().Add(ttl).UnixMilli()
				if err := firstError(b.Client.DoMulti(calls,
					b.Client.B().Hset().Key(hot.values).FieldValue().FieldValue(field, hot.stored(later)).Build(),
					b.Client.B().Zadd().Key(hot.deadlines).ScoreMember().ScoreMember(float64(later), field).Build(),
				)); err != nil {
					failed.Store(&err)
					return
				}
				next = next.Add(time.Duration(rand.ExpFloat64() * float64(hotWriters*hotEvery)))
			}
		})
	}
	func() {
		defer writers.Wait()
		defer stop()
		begin := time.Now()
		for more := true; more && ctx.Err() == nil && time.Since(begin) < b.Time; {
			fields, aborted := slice(calls)
			r.slices++
			r.fields += fields
			if aborted {
				r.aborted++
			}
			more = aborted || fields > 0
		}
		r.took = time.Since(begin)
	}()
	if cause := failed.Load(); cause != nil {
		must.Do(errors.Join(*cause, context.Cause(ctx)))
	}
	must.Do(context.Cause(ctx))
	return r
}
