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
// examines cfg.Look messages, by default all that are dead when it begins, in pages: those of
// a page wait again before the next one is examined. It ignores cfg.State and cfg.Max. It
// returns how many wait again. Found says how many it examined, and where to go on; it has no
// messages.
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

// matchPage is how many messages are examined before something is done.
const matchPage = 10_000

// eachMatching calls do with the dead messages that match, a page after the other. Those that
// die meanwhile come last and are not examined.
func (q *Queue) eachMatching(ctx context.Context, cfg SearchConfig, do func(context.Context, ...string) (int, error)) (int, Found, error) {
	cfg.State, cfg.Max = Dead, 0
	checked := cfg
	if _, err := checked.browse(); err != nil {
		return 0, Found{}, err
	}
	all := Found{Next: cfg.After}
	n, left := 0, cfg.Look
	for first := true; ; first = false {
		page := cfg
		page.After, page.Look = all.Next, matchPage
		if left > 0 {
			page.Look = min(left, matchPage)
		}
		var ids []string
		var found Found
		err := q.look(ctx, &page, &found, func(m Message) bool {
			ids = append(ids, m.ID)
			return true
		})
		if err != nil {
			return n, all, err
		}
		some, err := do(ctx, ids...)
		n += some
		if err != nil {
			return n, all, err
		}
		if first {
			all.Total = found.Total
			if left == 0 {
				left = found.Total
			}
		}
		all.Looked, all.Next = all.Looked+found.Looked, found.Next
		if left -= found.Looked; left <= 0 || found.Next == "" {
			return n, all, nil
		}
	}
}
