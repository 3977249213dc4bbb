package shards

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace"
)

// Reap removes what has expired in a shard. It is called with due false for a shard in
// which nothing is due: then it only forgets old answers.
type Reap func(ctx context.Context, base string, shards int, due bool) (millrace.Progress, error)

// Progress is what a call that removed some names found to do, if full says whether it
// used up its budget.
func Progress(removed int64, full bool) millrace.Progress {
	switch {
	case full:
		return millrace.Full
	case removed > 0:
		return millrace.Worked
	}
	return millrace.Idle
}

// Jobs returns the jobs of one namespace: one that reaps its shards, and one that checks
// what the servers may evict.
func (s *Space) Jobs(reap Reap) []millrace.Job {
	return []millrace.Job{
		{Name: s.Kind.Package + ".reap:" + s.Name, Slice: func(ctx context.Context) (millrace.Progress, error) {
			return s.reapSlice(ctx, reap)
		}},
		{Name: s.Kind.Package + ".policy:" + s.Name, Slice: func(ctx context.Context) (millrace.Progress, error) {
			if s.policy.Changed(ctx, time.Second) {
				return millrace.Worked, nil
			}
			return millrace.Idle, nil
		}},
	}
}

// reapSlice is one slice of the job that reaps.
func (s *Space) reapSlice(ctx context.Context, reap Reap) (millrace.Progress, error) {
	var mu sync.Mutex
	progress := millrace.Idle
	err := s.eachDue(ctx, func(base string, shards int, due bool) error {
		p, err := reap(ctx, base, shards, due)
		mu.Lock()
		defer mu.Unlock()
		progress = max(progress, p)
		return err
	})
	return progress, err
}
