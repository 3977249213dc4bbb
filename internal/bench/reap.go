package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/retry"
)

const (
	hotFields  = 200_000 // expired
	hotWriters = 10
	hotEvery   = time.Second / 1000
	loadAtOnce = 1000
)

// reaping is what became of slices.
type reaping struct {
	fields          int // removed
	slices, aborted int
	took            time.Duration
}

// throughput returns fields a second.
func throughput(reap func(context.Context, Place) (reaping, error)) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		r, err := reap(ctx, p)
		return float64(r.fields) / r.took.Seconds(), err
	}
}

// undisturbed returns the share of slices that were not aborted, in per cent.
func undisturbed(reap func(context.Context, Place) (reaping, error)) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		r, err := reap(ctx, p)
		return 100 * float64(r.slices-r.aborted) / float64(r.slices), err
	}
}

// reapJob reaps with the job. The namespace has one shard, so that there is one
// call a slice, as with WATCH, and one hash.
func reapJob(ctx context.Context, p Place) (r reaping, err error) {
	err = withHashes(ctx, p, expiry.Config{Shards: 1}, func(h *expiry.Hashes) error {
		hash := hashName(0)
		if _, err := h.Set(ctx, hash, stayingField, []byte(fieldValue), expiry.SetConfig{TTL: ttl}); err != nil {
			return err
		}
		base := shardKey(p, 0)
		values, deadlines := base+":h:"+hash, base+":t:"+hash
		if err := hot(ctx, p, values, deadlines, framed); err != nil {
			return err
		}
		if err := p.Client.Do(ctx, p.Client.B().Zadd().Key(base+":due").ScoreMember().ScoreMember(0, hash).Build()).Error(); err != nil {
			return err
		}
		job := h.Jobs()[0]
		r, err = underWrites(ctx, p, values, deadlines, framed, func(ctx context.Context) (int, bool, error) {
			progress, err := job.Slice(ctx)
			return int(progress), false, err // none for millrace.Idle; the fields are counted below
		})
		if err != nil {
			return err
		}
		seen, err := h.Stats(ctx)
		r.fields = int(seen.Reaped)
		return err
	})
	return r, err
}

// watchReap reaps as one does without scripts: it looks up what is expired, and
// removes it unless another client has written to the hash meanwhile.
func watchReap(atOnce int64) func(context.Context, Place) (reaping, error) {
	return func(ctx context.Context, p Place) (r reaping, err error) {
		tag := "{" + p.Name + "/0}" // that of the shard
		values, deadlines := tag+":values", tag+":deadlines"
		defer func() { err = errors.Join(err, p.cleanUp(ctx, p.unlink(values, deadlines))) }()
		if err := hot(ctx, p, values, deadlines, bare); err != nil {
			return r, err
		}
		err = p.Client.Dedicated(func(c rueidis.DedicatedClient) error {
			r, err = underWrites(ctx, p, values, deadlines, bare, func(ctx context.Context) (int, bool, error) {
				return watchSlice(ctx, c, values, deadlines, atOnce)
			})
			return err
		})
		return r, err
	}
}

func watchSlice(ctx context.Context, c rueidis.DedicatedClient, values, deadlines string, atOnce int64) (fields int, aborted bool, err error) {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	if err := c.Do(ctx, c.B().Watch().Key(values, deadlines).Build()).Error(); err != nil {
		return 0, false, err
	}
	gone, err := c.Do(ctx, c.B().Zrange().Key(deadlines).Min("-inf").Max(now).Byscore().Limit(0, atOnce).Build()).AsStrSlice()
	if err != nil || len(gone) == 0 {
		return 0, false, err
	}
	replies := c.DoMulti(ctx,
		c.B().Multi().Build(),
		c.B().Hdel().Key(values).Field(gone...).Build(),
		c.B().Zrem().Key(deadlines).Member(gone...).Build(),
		c.B().Exec().Build())
	err = replies[len(replies)-1].Error()
	if rueidis.IsRedisNil(err) {
		return 0, true, nil
	}
	return len(gone), false, err
}

// stored is what lies in Redis for a field with that deadline.
type stored func(deadline int64) string

func bare(int64) string { return fieldValue }

// framed is as docs/WIRE.md has it.
func framed(deadline int64) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(deadline))
	head[0], head[1] = 250, 2
	return string(head) + fieldValue
}

// hot stores a hash with expired fields, as two plain keys.
func hot(ctx context.Context, p Place, values, deadlines string, stored stored) error {
	calls := context.WithoutCancel(ctx) // none is cut off
	n := max(loadAtOnce, p.Scaled(hotFields))
	past := time.Now().Add(-time.Minute).UnixMilli()
	for first := 0; first < n && ctx.Err() == nil; first += loadAtOnce {
		hset := p.Client.B().Hset().Key(values).FieldValue()
		zadd := p.Client.B().Zadd().Key(deadlines).ScoreMember()
		for i := range loadAtOnce {
			hset = hset.FieldValue(fieldName(first+i), stored(past))
			zadd = zadd.ScoreMember(float64(past), fieldName(first+i))
		}
		if err := FirstError(p.Client.DoMulti(calls, hset.Build(), zadd.Build())); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// underWrites calls slice while fields of the hash are written that do not expire
// meanwhile, until the time is over or it removes none without being aborted.
func underWrites(ctx context.Context, p Place, values, deadlines string, stored stored, slice func(context.Context) (fields int, aborted bool, err error)) (r reaping, err error) {
	calls := context.WithoutCancel(ctx) // none is cut off
	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	var failed atomic.Pointer[error]
	for range hotWriters {
		writers.Go(func() {
			for next := time.Now(); retry.Sleep(writing, time.Until(next)); {
				field := fieldName(-1 - rand.IntN(1000))
				later := time.Now().Add(ttl).UnixMilli()
				if err := FirstError(p.Client.DoMulti(calls,
					p.Client.B().Hset().Key(values).FieldValue().FieldValue(field, stored(later)).Build(),
					p.Client.B().Zadd().Key(deadlines).ScoreMember().ScoreMember(float64(later), field).Build(),
				)); err != nil {
					failed.Store(&err)
					return
				}
				next = next.Add(time.Duration(rand.ExpFloat64() * float64(hotWriters*hotEvery)))
			}
		})
	}
	begin := time.Now()
	for more := true; more && ctx.Err() == nil && time.Since(begin) < p.Time; {
		var fields int
		var aborted bool
		if fields, aborted, err = slice(calls); err != nil {
			break
		}
		r.slices++
		r.fields += fields
		if aborted {
			r.aborted++
		}
		more = aborted || fields > 0
	}
	r.took = time.Since(begin)
	stop()
	writers.Wait()
	if cause := failed.Load(); cause != nil {
		err = errors.Join(err, *cause)
	}
	return r, errors.Join(err, context.Cause(ctx))
}
