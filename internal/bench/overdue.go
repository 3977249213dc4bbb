package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/steal"
)

const (
	agingHashes   = 10_000 // with a field each that stays, and one that expires
	agingEvery    = time.Second / 300
	momentEvery   = time.Second / 5000
	recruited     = 0.003 // of the moments
	agingTimes    = 4     // as long as other sides
	agingHead     = 500 * time.Millisecond
	agingInterval = 10 * time.Millisecond
	stayingField  = "stays"
	expiringField = "expires"
)

// reapIndex is the job of the library, which finds expired fields in an index.
func reapIndex(h *expiry.Hashes, _ int) millrace.Job { return h.Jobs()[0] }

// sampleHashes is a job that cleans one hash, chosen at random: each write removes expired
// fields of its hash.
func sampleHashes(h *expiry.Hashes, hashes int) millrace.Job {
	return millrace.Job{Name: "sample", Slice: func(ctx context.Context) (millrace.Progress, error) {
		_, err := h.Set(ctx, hashName(rand.IntN(hashes)), stayingField, []byte(fieldValue), expiry.SetConfig{KeepTTL: true})
		return millrace.Worked, err
	}}
}

// overdue returns for how long fields are overdue. Those that were removed are counted
// off in the order of the deadlines, and those that were not have been overdue until the
// end.
func overdue(job func(h *expiry.Hashes, hashes int) millrace.Job) func(context.Context, *B) []time.Duration {
	return func(ctx context.Context, b *B) []time.Duration {
		a := age(ctx, b, job)
		last := a.checked[len(a.checked)-1]
		list := make([]time.Duration, a.expired(last))
		for i := range list {
			check, _ := slices.BinarySearch(a.reaped, i+1)
			gone := a.checked[min(check, len(a.checked)-1)]
			list[i] = gone.Sub(a.start.Add(time.Duration(i) * agingEvery))
		}
		return list
	}
}

// aging has the measurements of fields that expire one after the other.
type aging struct {
	hashes  int
	fields  int         // how many expired
	start   time.Time   // when the first expired
	checked []time.Time // when stats were read
	reaped  []int       // how many had been removed then
}

// expired returns how many fields had expired.
func (a *aging) expired(at time.Time) int {
	return min(a.fields, max(0, int((at.Sub(a.start)+agingEvery)/agingEvery)))
}

// age has fields expire, while reads enlist for the job.
func age(ctx context.Context, b *B, job func(h *expiry.Hashes, hashes int) millrace.Job) *aging {
	hashes := min(agingHashes, b.Scaled(2*agingHashes))
	a := &aging{hashes: hashes, fields: max(1, min(hashes, int(agingTimes*b.Time/agingEvery)))}
	recruiter := steal.New(steal.Config{})
	h := b.hashes(ctx, expiry.Config{Shards: shards.Default, Enlister: recruiter})
	must.Do(recruiter.Install(job(h, hashes), recruited))
	a.stock(ctx, b, h)
	must.Do(errors.Join(a.watch(ctx, h), recruiter.Close(context.WithoutCancel(ctx))))
	return a
}

// stock stores the hashes. Fields that expire meanwhile come last, so that they exist
// before the first expires.
func (a *aging) stock(ctx context.Context, b *B, h *expiry.Hashes) {
	set := func(ctx context.Context, i int, field string, ttl time.Duration) error {
		_, err := h.Set(ctx, hashName(i), field, []byte(fieldValue), expiry.SetConfig{TTL: ttl})
		return err
	}
	must.Do(Deal(ctx, a.hashes, func(ctx context.Context, i int) error {
		if i >= a.fields {
			if err := set(ctx, i, expiringField, ttl); err != nil {
				return err
			}
		}
		return set(ctx, i, stayingField, 0)
	}))
	a.start = time.Now().Add(agingHead + 2*must.Get(roundTrip(ctx, b))*time.Duration(a.fields/Goroutines))
	must.Do(Deal(ctx, a.fields, func(ctx context.Context, i int) error {
		left := time.Until(a.start.Add(time.Duration(i) * agingEvery))
		return set(ctx, i, expiringField, max(time.Millisecond, left))
	}))
}

// watch counts the fields that are removed while hashes are read.
func (a *aging) watch(ctx context.Context, h *expiry.Hashes) (err error) {
	end := a.start.Add(time.Duration(a.fields) * agingEvery)
	ended := make(chan error, 1)
	go func() { ended <- a.offerMoments(ctx, h, end) }()
	for more := true; more && err == nil; retry.Sleep(ctx, agingInterval) {
		var seen expiry.Stats
		seen, err = h.Stats(ctx)
		a.checked = append(a.checked, time.Now())
		a.reaped = append(a.reaped, int(seen.Reaped))
		more = time.Now().Before(end)
	}
	return errors.Join(err, <-ended)
}

// offerMoments reads fields that exist.
func (a *aging) offerMoments(ctx context.Context, h *expiry.Hashes, end time.Time) error {
	return each(ctx, Goroutines, func(calls context.Context, _ int, ended func() bool) error {
		for next := time.Now(); next.Before(end) && !ended(); {
			if _, _, err := h.Get(calls, hashName(rand.IntN(a.hashes)), stayingField); err != nil {
				return err
			}
			next = next.Add(time.Duration(rand.ExpFloat64() * float64(Goroutines*momentEvery)))
			retry.Sleep(ctx, time.Until(next))
		}
		return nil
	})
}
