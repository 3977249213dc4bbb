package steal

import (
	"context"
	"math"
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
func (r *Recruiter) Enlist(ctx context.Context) { r.EnlistN(ctx, 1) }

// EnlistN offers n moments at once, as after a batch of n reads. It makes one
// draw, with the chance that at least one of n would have recruited, so it runs
// at most one slice.
func (r *Recruiter) EnlistN(ctx context.Context, n int) {
	if m, ok := ctx.Value(r).(*moment); ok {
		m.seize()
		return
	}
	if j := r.draw(n); j != nil && r.admit(ctx, j, ViaDraw) {
		r.work(ctx, j, ViaDraw)
	}
}

// draw returns the job that n moments recruit for, nil for none.
func (r *Recruiter) draw(n int) *job {
	if n <= 0 {
		return nil
	}
	x := r.random()
	if x%sample == 0 {
		r.enlisted.Add(sample * uint64(n))
	}
	u, t := unit(x), r.table.Load()
	if n > 1 && t.total > 0 {
		// The chance that any of n moments recruits is shared by the jobs as
		// that of one moment is.
		u *= t.total / -math.Expm1(float64(n)*math.Log1p(-min(t.total, 1)))
	}
	if u >= t.total {
		return nil
	}
	i := 0
	for u >= t.bounds[i] {
		i++
	}
	return t.jobs[i]
}

// uniform returns a random number in [0, 1).
func (r *Recruiter) uniform() float64 { return unit(r.random()) }

// unit turns the upper 53 bits of x into a number in [0, 1).
func unit(x uint64) float64 { return float64(int64(x>>11)) / (1 << 53) }
