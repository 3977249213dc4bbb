package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/shards"
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

// reapIndex is the job of the library, which finds what is overdue in an index.
func reapIndex(h *expiry.Hashes, _ int) millrace.Job { return h.Jobs()[0] }

// sampleHashes is a job that cleans one hash, chosen at random: each write removes expired
// fields of its hash.
func sampleHashes(h *expiry.Hashes, hashes int) millrace.Job {
	return millrace.Job{Name: "sample", Slice: func(ctx context.Context) (millrace.Progress, error) {
		_, err := h.Set(ctx, hashName(rand.IntN(hashes)), stayingField, []byte(fieldValue), expiry.SetConfig{KeepTTL: true})
		return millrace.Worked, err
	}}
}

// overdue returns for how long fields are overdue.
func overdue(job func(h *expiry.Hashes, hashes int) millrace.Job) func(context.Context, Place) ([]time.Duration, error) {
	return func(ctx context.Context, p Place) ([]time.Duration, error) {
		a, err := age(ctx, p, job)
		if err != nil {
			return nil, err
		}
		return a.stays(), nil
	}
}

// mostOverdue returns how many fields are overdue at most.
func mostOverdue(job func(h *expiry.Hashes, hashes int) millrace.Job) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		a, err := age(ctx, p, job)
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
	looked []time.Time // when stats were read
	reaped []int       // how many had been removed then
}

// age has fields expire, while those who read recruit for the job.
func age(ctx context.Context, p Place, job func(h *expiry.Hashes, hashes int) millrace.Job) (a *aging, err error) {
	hashes := min(agingHashes, p.Scaled(2*agingHashes))
	a = &aging{hashes: hashes, fields: max(1, min(hashes, int(agingTimes*p.Time/agingEvery)))}
	recruiter := steal.New(steal.Config{})
	cfg := expiry.Config{Shards: shards.Default, Enlister: recruiter}
	return a, withHashes(ctx, p, cfg, func(h *expiry.Hashes) error {
		if err := recruiter.Install(job(h, hashes), recruited); err != nil {
			return err
		}
		if err := a.stock(ctx, p, h); err != nil {
			return err
		}
		return errors.Join(a.watch(ctx, h), recruiter.Close(context.WithoutCancel(ctx)))
	})
}

// stock stores the hashes. Those that expire meanwhile come last, so that they are
// there before the first expires.
func (a *aging) stock(ctx context.Context, p Place, h *expiry.Hashes) error {
	set := func(ctx context.Context, i int, field string, ttl time.Duration) error {
		_, err := h.Set(ctx, hashName(i), field, []byte(fieldValue), expiry.SetConfig{TTL: ttl})
		return err
	}
	if err := Deal(ctx, a.hashes, func(ctx context.Context, i int) error {
		if i >= a.fields {
			if err := set(ctx, i, expiringField, ttl); err != nil {
				return err
			}
		}
		return set(ctx, i, stayingField, 0)
	}); err != nil {
		return err
	}
	way, err := roundTrip(ctx, p)
	if err != nil {
		return err
	}
	a.start = time.Now().Add(agingHead + 2*way*time.Duration(a.fields/Goroutines))
	return Deal(ctx, a.fields, func(ctx context.Context, i int) error {
		left := time.Until(a.start.Add(time.Duration(i) * agingEvery))
		return set(ctx, i, expiringField, max(time.Millisecond, left))
	})
}

// watch counts what is removed while there are readers.
func (a *aging) watch(ctx context.Context, h *expiry.Hashes) (err error) {
	end := a.start.Add(time.Duration(a.fields) * agingEvery)
	ended := make(chan error, 1)
	go func() { ended <- a.offerMoments(ctx, h, end) }()
	for more := true; more && err == nil; retry.Sleep(ctx, agingInterval) {
		var seen expiry.Stats
		seen, err = h.Stats(ctx)
		a.looked = append(a.looked, time.Now())
		a.reaped = append(a.reaped, int(seen.Reaped))
		more = time.Now().Before(end)
	}
	return errors.Join(err, <-ended)
}

// offerMoments reads fields that are there.
func (a *aging) offerMoments(ctx context.Context, h *expiry.Hashes, end time.Time) error {
	return each(ctx, func(calls context.Context, _ int, ended func() bool) error {
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
