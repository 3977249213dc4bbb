package shards

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// Reap removes the expired data of a shard. It is called with due false for a shard in
// which nothing is due: then it only forgets old answers.
type Reap func(ctx context.Context, base string, shards int, due bool) (millrace.Progress, error)

// Reap runs the script reap on a shard, which replies with the number it removed and whether that
// used up its budget.
func (s *Space) Reap(ctx context.Context, base string, shards int, args ...string) (millrace.Progress, error) {
	reply, err := s.Ask(ctx, nil, "reap", base, shards, args...)
	if err != nil {
		return millrace.Idle, err
	}
	removed, full := reply.Int(), reply.Bool()
	switch {
	case full:
		return millrace.More, reply.Err()
	case removed > 0:
		return millrace.Worked, reply.Err()
	}
	return millrace.Idle, reply.Err()
}

// Jobs returns the jobs of one namespace: one that reaps its shards, and one that checks
// the servers' eviction policies.
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

// DefaultIdle is how long all processes leave a namespace alone after one of them found
// nothing due, unless something is due earlier.
const DefaultIdle = time.Second

// reapSlice is one slice of the job that reaps. Every process runs one every few seconds and
// in some idle moments, so a slice with nothing to do must cost little: the record says until
// when nothing is due, and only then does a slice look into the shards. It reaps those in
// which something is due, and one more by turns, where it forgets old answers and finds out
// whether the namespace is still the known one.
func (s *Space) reapSlice(ctx context.Context, reap Reap) (millrace.Progress, error) {
	shards, err := s.Count(ctx, false)
	if err != nil || shards == 0 || s.idle(ctx) {
		return millrace.Idle, err
	}
	bases := s.bases(shards)
	look := func(base string, _ int) (due, error) {
		all, err := s.due(ctx, 1, base)
		if err != nil {
			return due{}, err
		}
		return all[0], nil
	}
	if s.Run.Client.Mode() != rueidis.ClientModeCluster { // where a silent node must not delay the others
		all, err := s.due(ctx, 1, bases...)
		if err != nil {
			return millrace.Idle, err
		}
		look = func(_ string, i int) (due, error) { return all[i], nil } //nolint:unparam // the other one may fail
	}
	turn := int(s.turn.Add(1)) % shards
	var mu sync.Mutex
	progress, wait := millrace.Idle, s.Idle
	missing, err := inShards(bases, func(i int, base string) error {
		found, err := look(base, i)
		if err != nil {
			return err
		}
		isDue, p := len(found.names) > 0, millrace.Idle
		if isDue || i == turn {
			p, err = reap(ctx, base, shards, isDue)
		}
		mu.Lock()
		defer mu.Unlock()
		progress, wait = max(progress, p), min(wait, found.wait)
		if isDue {
			wait = 0
		}
		return err
	})
	if missing || errors.Is(err, errShards) {
		if now, lost := s.recount(ctx, false); lost != nil || now != shards {
			return progress, lost // the next slice uses the new number
		}
	}
	if err == nil && wait > 0 {
		_, err = s.Run.Run(ctx, "rest", s.Kind.RecordKey(s.Name), CeilMillis(wait))
	}
	return progress, err
}

// idle reports whether the record says that nothing is due now. It takes at most a third of
// the slice's time: a node of a Cluster that is silent does not stop the others.
func (s *Space) idle(ctx context.Context) bool {
	if until := s.idleUntil.Load(); until != nil && time.Now().Before(*until) {
		return true
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/3)
		defer cancel()
	}
	record := s.Kind.RecordKey(s.Name)
	a, err := s.readers.do(ctx, read{record, record, []string{"idle"}})
	if err != nil || a.stored[0].IsNil() {
		return false
	}
	until, err := a.stored[0].AsInt64()
	left := time.Duration(until-a.now/1000) * time.Millisecond
	if err != nil || left <= 0 || left > s.Idle {
		return false
	}
	after := time.Now().Add(left)
	s.idleUntil.Store(&after)
	return true
}
