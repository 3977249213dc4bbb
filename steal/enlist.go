package steal

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
)

// sample is how many enlistments a counted one stands for. Spare bits of the draw
// choose the counted ones: counting each would cost as much as the draw, and more
// where processors share the counter.
const sample = 64

// moment is a context value that replaces draws: all enlistments under that context
// only set offered. Its key is the recruiter.
type moment struct{ offered atomic.Bool }

// Enlist offers this moment: by the chance of its rate a job is drawn and runs one
// slice within the budget before Enlist returns. Call it when the caller's own work is
// done. Within a slice it does nothing; within a [Middleware] the draw is made after the
// response.
func (r *Recruiter) Enlist(ctx context.Context) {
	if m, _ := ctx.Value(r).(*moment); m != nil {
		if !m.offered.Load() {
			m.offered.Store(true)
		}
		return
	}
	if j := r.table.Load().at(r.draw()); j != nil && r.admit(ctx, j, false) {
		r.work(ctx, j, nil)
	}
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
	return float64(int64(x>>11)) / (1 << 53)
}

// at returns the job whose interval contains u, or nil.
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

// Middleware delays the enlistments of a request's handler until the handler has
// returned, and folds them into one. A recruited slice runs on its own goroutine, so the
// client does not wait for it; [Recruiter.Close] does. A handler that panics, or that
// did not enlist with the request's context, recruits no slice.
func Middleware(r *Recruiter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Context().Value(r) != nil { // an outer Middleware of the same recruiter
				next.ServeHTTP(w, req)
				return
			}
			m := new(moment)
			next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), r, m)))
			if !m.offered.Load() {
				return
			}
			// A goroutine is started only for a slot, so slots bound their number.
			ctx := context.WithoutCancel(req.Context())
			if j := r.table.Load().at(r.draw()); j != nil && r.admit(ctx, j, false) {
				go r.work(ctx, j, nil)
			}
		})
	}
}
