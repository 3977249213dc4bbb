package parts

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
)

// PartStats is one part.
type PartStats struct {
	fairqueue.Stats // zero if the part does not exist yet, or did not answer

	Draining bool
	Err      error // why the part did not answer; nil also for a part without a first message
}

// Stats are the parts and their sums.
type Stats struct {
	Waiting, InFlight, Delayed, Dead int

	Failing []queuestats.Failures // tenants of [fairqueue.Stats].Failing of all parts, those with the most failures first

	Parts []PartStats
}

// Stats returns the contents of the parts. If some do not answer, it returns the others, with
// [millrace.ErrPartial]; [PartStats].Err says why.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Parts: make([]PartStats, len(q.parts))}
	err := q.all(ctx, func(ctx context.Context, p *part) error {
		one, err := p.queue.Stats(ctx)
		s.Parts[p.index] = PartStats{Stats: one, Draining: p.draining, Err: ignoreMissing(err)}
		return err
	})
	failing := map[string]queuestats.Failures{}
	for _, p := range s.Parts {
		for _, f := range p.Failing {
			failing[f.Tenant] = together(failing[f.Tenant], f)
		}
		s.Waiting, s.InFlight, s.Delayed, s.Dead = s.Waiting+p.Waiting, s.InFlight+p.InFlight, s.Delayed+p.Delayed, s.Dead+p.Dead
	}
	s.Failing = slices.SortedFunc(maps.Values(failing), func(a, b queuestats.Failures) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tenant, b.Tenant))
	})
	return s, err
}

// together returns the failures of a tenant in two parts, of which the first may be none.
func together(a, b queuestats.Failures) queuestats.Failures {
	if a.Count == 0 {
		return b
	}
	if a.Newest.After(b.Newest) {
		a, b = b, a
	}
	b.Count, b.Died = a.Count+b.Count, a.Died+b.Died
	if a.Oldest.Before(b.Oldest) {
		b.Oldest = a.Oldest
	}
	return b
}

// Len returns how many messages a new reader could work on. If some parts do not answer, it is
// the sum of the others, with [millrace.ErrPartial].
func (q *Queue) Len(ctx context.Context) (int, error) {
	counts := make([]int, len(q.parts))
	err := q.all(ctx, func(ctx context.Context, p *part) (err error) {
		counts[p.index], err = p.queue.Len(ctx)
		return err
	})
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// Pause pauses reading of all parts. Parts without a first message cannot be paused and are left
// out. After [millrace.ErrPartial], repeat it when all parts answer.
func (q *Queue) Pause(ctx context.Context) error {
	return q.all(ctx, func(ctx context.Context, p *part) error { return p.queue.Pause(ctx) })
}

// Resume continues reading. Errors: as of [Queue.Pause].
func (q *Queue) Resume(ctx context.Context) error {
	return q.all(ctx, func(ctx context.Context, p *part) error { return p.queue.Resume(ctx) })
}

// Delete removes all parts with their messages. Errors: as of [Queue.Pause].
func (q *Queue) Delete(ctx context.Context) error {
	return q.all(ctx, func(ctx context.Context, p *part) error {
		_, err := p.queue.Delete(ctx)
		return err
	})
}

// all calls all parts at the same time, each for at most [Config.Timeout]. A part without a
// first message is no error.
func (q *Queue) all(ctx context.Context, call func(ctx context.Context, p *part) error) error {
	return q.each(ctx, q.parts, func(p *part) error {
		within, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
		return ignoreMissing(call(within, p))
	})
}

// each calls some parts at the same time. An error that all of them return is no [millrace.ErrPartial].
func (q *Queue) each(ctx context.Context, parts []*part, call func(p *part) error) error {
	errs := make([]error, len(parts))
	var calls sync.WaitGroup
	for i, p := range parts {
		calls.Go(func() { errs[i] = call(p) })
	}
	calls.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failed := 0
	for _, err := range errs {
		switch {
		case errors.Is(err, millrace.ErrBadArgument):
			return err
		case err != nil:
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return millrace.ErrPartial.Errorf("%d of %d parts of the queue did not answer", failed, len(parts)).Wrap(firstOf(errs))
}

func ignoreMissing(err error) error {
	if errors.Is(err, millrace.ErrNotFound) {
		return nil
	}
	return err
}
