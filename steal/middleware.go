package steal

import (
	"context"
	"net/http"
)

// Middleware has the enlistments of a request's handler wait until the handler
// has returned, and makes one of them, however many there were. A slice that it
// recruits for runs beside the connection, so the client does not wait for it;
// [Recruiter.Close] does. A handler that panics, or that did not enlist with the
// request's context, recruits nobody.
func Middleware(r *Recruiter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Context().Value(r) != nil { // another one of ours is around this one
				next.ServeHTTP(w, req)
				return
			}
			m := new(moment)
			next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), r, m)))
			if m.seized.Load() {
				r.enlistBeside(context.WithoutCancel(req.Context()))
			}
		})
	}
}

// enlistBeside is Enlist with the slice on a goroutine of its own. A goroutine is
// started only for a slot that is taken, so there are never more of them than
// slots.
func (r *Recruiter) enlistBeside(ctx context.Context) {
	if j := r.table.Load().at(r.draw()); j != nil && r.admit(ctx, j, ViaDraw) {
		go r.work(ctx, j, ViaDraw)
	}
}
