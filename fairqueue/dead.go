package fairqueue

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// DeadGroup is the dead messages that have a reason in common.
type DeadGroup struct {
	Reason         string
	Count          int
	Oldest, Newest time.Time // deaths
}

// DeadGroups counts dead messages that match by their reason, the largest group first. It
// examines cfg.Look messages at most, and ignores cfg.State and cfg.Max. Found says how many
// it examined, and where to go on; it has no messages. A search with the Reason of a group
// returns its messages.
//
// Errors: those of [Queue.Browse].
func (q *Queue) DeadGroups(ctx context.Context, cfg SearchConfig) ([]DeadGroup, Found, error) {
	cfg.State, cfg.Max = Dead, 0
	var found Found
	byReason := map[string]*DeadGroup{}
	err := q.look(ctx, &cfg, &found, func(m Message) bool {
		g := byReason[m.Reason]
		if g == nil {
			g = &DeadGroup{Reason: m.Reason, Oldest: m.Since}
			byReason[m.Reason] = g
		}
		g.Count, g.Newest = g.Count+1, m.Since
		return true
	})
	groups := make([]DeadGroup, 0, len(byReason))
	for _, g := range byReason {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return groups, found, err
}

// RedriveMatching makes dead messages that match wait again, as [Queue.Redrive] does. It
// examines cfg.Look messages at most, and ignores cfg.State and cfg.Max. It returns how many
// wait again. Found says how many it examined, and where to go on; it has no messages.
//
// A message that dies again comes last. To redrive all of a queue whose messages may die at
// once, go on until as many are examined as Found.Total said first.
//
// Errors: those of [Queue.Browse]. With an error, some may wait again; Found.Next is where to
// repeat the call.
func (q *Queue) RedriveMatching(ctx context.Context, cfg SearchConfig) (int, Found, error) {
	return q.eachMatching(ctx, cfg, q.Redrive)
}

// PurgeMatching removes dead messages that match for good. The rest is as in
// [Queue.RedriveMatching].
func (q *Queue) PurgeMatching(ctx context.Context, cfg SearchConfig) (int, Found, error) {
	return q.eachMatching(ctx, cfg, q.Purge)
}

// eachMatching calls do with the dead messages that match, after they were all found: what
// do removes cannot move what is still to be examined.
func (q *Queue) eachMatching(ctx context.Context, cfg SearchConfig, do func(context.Context, ...string) (int, error)) (int, Found, error) {
	cfg.State, cfg.Max = Dead, 0
	var ids []string
	var found Found
	err := q.look(ctx, &cfg, &found, func(m Message) bool {
		ids = append(ids, m.ID)
		return true
	})
	if err != nil {
		found.Next = cfg.After
		return 0, found, err
	}
	n, err := do(ctx, ids...)
	if err != nil {
		found.Next = cfg.After
	}
	return n, found, err
}
