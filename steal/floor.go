package steal

import (
	"context"
	"math/rand/v2"
	"time"
)

// Run is the floor: it runs every job that has not run for [Config.Floor], at
// the latest a quarter of that later, and one after the other. It returns when
// ctx has ended, with its cause, or nil after [Recruiter.Close]. One a process
// is the rule; without any, jobs run only when they are drawn.
func (r *Recruiter) Run(ctx context.Context) error {
	for {
		eighth := float64(r.cfg.Floor / 8)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.quit:
			return nil
		case <-time.After(time.Duration(eighth * (1 + rand.Float64()))):
		}
		for _, j := range r.table.Load().jobs {
			if r.overdue(j) && r.admit(ctx, j, ViaFloor) {
				r.work(ctx, j, ViaFloor)
			}
		}
	}
}

// overdue reports whether j has not run for so long that it must.
func (r *Recruiter) overdue(j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.running == 0 && time.Since(j.ran) >= r.cfg.Floor
}

// Close ends recruiting and waits for the slices under way, those of finished
// requests included. If ctx ends first it returns the cause; what still runs
// then ends with its budget. Enlisting goes on to be harmless, and so is
// closing twice.
func (r *Recruiter) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.quit)
		r.drain()
	}
	r.mu.Unlock()
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain tells those who wait in Close when the last slice has ended. Call it
// with mu held, after each change that may have been the last.
func (r *Recruiter) drain() {
	if r.closed && r.running == 0 {
		close(r.drained)
	}
}
