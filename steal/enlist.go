package steal

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
)

// sample is how many enlistments one that is counted stands for. Which ones are
// counted is up to bits of the draw that it does not use: counting each one
// would cost as much as the draw, and more where processors share the counter.
const sample = 64

// moment stands in a context for moments that are not the caller's to give: all
// enlistments under that context fold into it. Its key is the recruiter.
type moment struct{ seized atomic.Bool }

func (m *moment) seize() {
	if !m.seized.Load() {
		m.seized.Store(true)
	}
}

// Enlist offers this moment: with the chance of its rate a job is drawn and runs
// one slice before Enlist returns, within the budget. Call it when the caller's
// own work is done. Within a slice it does nothing; within a [Middleware] the
// draw is made after the response.
func (r *Recruiter) Enlist(ctx context.Context) {
	if m := r.moment(ctx); m != nil {
		m.seize()
		return
	}
	if j := r.table.Load().at(r.draw()); j != nil && r.admit(ctx, j, ViaDraw) {
		r.work(ctx, j, ViaDraw)
	}
}

// moment returns the moment that enlistments under ctx are part of, nil for none.
func (r *Recruiter) moment(ctx context.Context) *moment {
	m, _ := ctx.Value(r).(*moment)
	return m
}

// draw returns a random number in [0, 1) for a moment.
func (r *Recruiter) draw() float64 {
	var x uint64
	if r.random != nil {
		x = r.random()
	} else {
		x = rand.Uint64() // called directly, because each enlistment pays for it
	}
	if x%sample == 0 {
		r.enlisted.Add(sample)
	}
	return unit(x)
}

// at returns the job whose interval u lies in, nil for none.
func (t *table) at(u float64) *job {
	if u >= t.total {
		return nil
	}
	i := 0
	for u >= t.bounds[i] {
		i++
	}
	return t.jobs[i]
}

// unit turns the upper 53 bits of x into a number in [0, 1).
func unit(x uint64) float64 { return float64(int64(x>>11)) / (1 << 53) }
