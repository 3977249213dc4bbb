package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/steal"
)

const (
	agingHashes   = 10_000 // with a field each that stays, and one that expires
	agingEvery    = time.Second / 300
	momentEvery   = time.Second / 5000
	recruited     = 0.003 // of the moments
	agingTimes    = 4     // as long as other sides
	agingHead     = 500 * time.Millisecond
	agingLook     = 10 * time.Millisecond
	stayingField  = "stays"
	expiringField = "expires"
)

// overdueP99 returns for how long fields are overdue, in milliseconds.
func overdueP99(job func(*expiry.Hashes) millrace.Job) func(context.Context, setup) (float64, error) {
	return pickup(func(ctx context.Context, s setup) ([]time.Duration, error) {
		a, err := age(ctx, s, job)
		if err != nil {
			return nil, err
		}
		return a.stays(), nil
	}, 99, time.Millisecond)
}

// overdueMost returns how many fields are overdue at most.
func overdueMost(job func(*expiry.Hashes) millrace.Job) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		a, err := age(ctx, s, job)
		if err != nil {
			return 0, err
		}
		most := 0
		for i, at := range a.looked {
			most = max(most, a.expired(at)-a.reaped[i])
		}
		return float64(most), nil
	}
}

// aging is what happened to fields that expire one after the other.
type aging struct {
	hashes int
	fields int         // how many expired
	start  time.Time   // when the first expired
	looked []time.Time // when somebody looked
	reaped []int       // how many had been removed then
}

// age has fields expire, while those who read recruit for the job.
func age(ctx context.Context, s setup, job func(*expiry.Hashes) millrace.Job) (*aging, error) {
	recruiter := steal.New(steal.Config{})
	h, err := freshHashes(ctx, s, expiry.HashesConfig{Enlister: recruiter})
	if err != nil {
		return nil, err
	}
	if err := recruiter.Install(job(h), recruited); err != nil {
		return nil, err
	}
	a, err := stockAging(ctx, s, h)
	if err != nil {
		return nil, err
	}

	end := a.start.Add(time.Duration(a.fields) * agingEvery)
	ended := make(chan error, 1)
	go func() { ended <- offerMoments(ctx, h, a.hashes, end) }()
	for more := true; more && err == nil; retry.Sleep(ctx, agingLook) {
		var seen expiry.HashesStats
		seen, err = h.Stats(ctx)
		a.looked = append(a.looked, time.Now())
		a.reaped = append(a.reaped, int(seen.Counters.Reaped))
		more = time.Now().Before(end)
	}
	return a, errors.Join(err, <-ended, recruiter.Close(ctx))
}

// stockAging stores the hashes. Those that expire meanwhile come last, so that they
// are there before the first expires.
func stockAging(ctx context.Context, s setup, h *expiry.Hashes) (*aging, error) {
	hashes := scaled(agingHashes, s)
	fields := max(1, min(hashes, int(agingTimes*s.time/agingEvery)))
	set := func(i int, field string, cfg expiry.SetConfig) error {
		_, err := h.Set(ctx, hashName(i), field, []byte(fieldValue), cfg)
		return err
	}
	if err := dealt(hashes, func(i int) error {
		if i >= fields {
			if err := set(i, expiringField, expiry.SetConfig{TTL: ttl}); err != nil {
				return err
			}
		}
		return set(i, stayingField, expiry.SetConfig{})
	}); err != nil {
		return nil, err
	}
	clock, err := s.client.Do(ctx, s.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		return nil, err
	}
	server := time.Unix(clock[0], clock[1]*1000).Add(agingHead)
	a := &aging{hashes: hashes, fields: fields, start: time.Now().Add(agingHead)}
	return a, dealt(fields, func(i int) error {
		return set(i, expiringField, expiry.SetConfig{Deadline: server.Add(time.Duration(i) * agingEvery)})
	})
}

// offerMoments reads fields that are there.
func offerMoments(ctx context.Context, h *expiry.Hashes, hashes int, end time.Time) error {
	return each(func() error {
		for next := time.Now(); next.Before(end); {
			if _, _, err := h.Get(ctx, hashName(rand.IntN(hashes)), stayingField); err != nil {
				return err
			}
			next = next.Add(time.Duration(rand.ExpFloat64() * float64(goroutines*momentEvery)))
			if !retry.Sleep(ctx, time.Until(next)) {
				return context.Cause(ctx)
			}
		}
		return nil
	})
}

// expired returns how many fields had expired.
func (a *aging) expired(at time.Time) int {
	return min(a.fields, max(0, int((at.Sub(a.start)+agingEvery)/agingEvery)))
}

// stays returns for how long each field was overdue. Those that were removed are
// counted off in the order of the deadlines, and those that were not have been
// overdue until the end.
func (a *aging) stays() []time.Duration {
	last := a.looked[len(a.looked)-1]
	list := make([]time.Duration, a.expired(last))
	for i := range list {
		look, _ := slices.BinarySearch(a.reaped, i+1)
		gone := last
		if look < len(a.looked) {
			gone = a.looked[look]
		}
		list[i] = gone.Sub(a.start.Add(time.Duration(i) * agingEvery))
	}
	return list
}

const (
	hotHash    = "hot"
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
func throughput(reap func(context.Context, setup) (reaping, error)) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		r, err := reap(ctx, s)
		return float64(r.fields) / r.took.Seconds(), err
	}
}

// undisturbed returns the share of slices that were not aborted, in per cent.
func undisturbed(reap func(context.Context, setup) (reaping, error)) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		r, err := reap(ctx, s)
		return 100 * float64(r.slices-r.aborted) / float64(r.slices), err
	}
}

// hot stores a hash with expired fields, as two plain keys.
func hot(ctx context.Context, s setup, values, deadlines string) error {
	n := max(loadAtOnce, scaled(hotFields, s))
	past := float64(time.Now().Add(-time.Minute).UnixMilli())
	for first := 0; first < n; first += loadAtOnce {
		hset := s.client.B().Hset().Key(values).FieldValue()
		zadd := s.client.B().Zadd().Key(deadlines).ScoreMember()
		for i := range loadAtOnce {
			hset = hset.FieldValue(fieldName(first+i), fieldValue)
			zadd = zadd.ScoreMember(past, fieldName(first+i))
		}
		if err := firstError(s.client.DoMulti(ctx, hset.Build(), zadd.Build())); err != nil {
			return err
		}
	}
	return nil
}

// underWrites calls slice while fields of the hash are written that do not expire
// meanwhile, until the time is over or it removes none without being aborted.
func underWrites(ctx context.Context, s setup, values, deadlines string, slice func() (fields int, aborted bool, err error)) (r reaping, err error) {
	ctx, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	var failed atomic.Pointer[error]
	for range hotWriters {
		writers.Go(func() {
			for next := time.Now(); retry.Sleep(ctx, time.Until(next)); {
				field := fieldName(-1 - rand.IntN(1000))
				later := float64(time.Now().Add(ttl).UnixMilli())
				if err := firstError(s.client.DoMulti(ctx,
					s.client.B().Hset().Key(values).FieldValue().FieldValue(field, fieldValue).Build(),
					s.client.B().Zadd().Key(deadlines).ScoreMember().ScoreMember(later, field).Build(),
				)); err != nil && ctx.Err() == nil {
					failed.Store(&err)
					return
				}
				next = next.Add(time.Duration(rand.ExpFloat64() * float64(hotWriters*hotEvery)))
			}
		})
	}
	begin := time.Now()
	for more := true; more && err == nil && time.Since(begin) < s.time; {
		var fields int
		var aborted bool
		if fields, aborted, err = slice(); err != nil {
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
	return r, err
}

// reapJob reaps with the job. The namespace has one shard, so that there is one
// call a slice, as with WATCH.
func reapJob(ctx context.Context, s setup) (reaping, error) {
	h, err := freshHashes(ctx, s, expiry.HashesConfig{Shards: 1})
	if err != nil {
		return reaping{}, err
	}
	if _, err := h.Set(ctx, hotHash, stayingField, []byte(fieldValue), expiry.SetConfig{TTL: ttl}); err != nil {
		return reaping{}, err
	}
	const base = "mr:hash:{bench/0}" // what lies there is told in docs/WIRE.md
	values, deadlines := base+":h:"+hotHash, base+":t:"+hotHash
	if err := hot(ctx, s, values, deadlines); err != nil {
		return reaping{}, err
	}
	if err := s.client.Do(ctx, s.client.B().Zadd().Key(base+":due").ScoreMember().ScoreMember(0, hotHash).Build()).Error(); err != nil {
		return reaping{}, err
	}
	job := h.ReapJob()
	r, err := underWrites(ctx, s, values, deadlines, func() (int, bool, error) {
		progress, err := job.Slice(ctx)
		return int(progress), false, err // none for millrace.Idle; the fields are counted below
	})
	if err != nil {
		return r, err
	}
	seen, err := h.Stats(ctx)
	r.fields = int(seen.Counters.Reaped)
	return r, err
}

// watchReap reaps as one does without scripts: it looks up what is expired, and
// removes it unless somebody has written to the hash meanwhile.
func watchReap(atOnce int64) func(context.Context, setup) (reaping, error) {
	const values, deadlines = "values", "deadlines"
	return func(ctx context.Context, s setup) (r reaping, err error) {
		if err := empty(ctx, s); err != nil {
			return r, err
		}
		if err := hot(ctx, s, values, deadlines); err != nil {
			return r, err
		}
		err = s.client.Dedicated(func(c rueidis.DedicatedClient) error {
			r, err = underWrites(ctx, s, values, deadlines, func() (int, bool, error) {
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
			})
			return err
		})
		return r, err
	}
}
