package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// DeadLetters are the dead messages of a queue: those that were delivered too often, or are not
// worth a retry.
type DeadLetters struct{ q *Queue }

// Dead returns the dead messages of the queue.
func (q *Queue) Dead() DeadLetters { return DeadLetters{q} }

// All yields the dead messages, oldest death first. A queue that does not exist has none.
func (d DeadLetters) All(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for cfg := (BrowseConfig{State: Dead, Max: page}); ; {
			messages, next, err := d.q.Browse(ctx, cfg)
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
			}
			if err != nil && !errors.Is(err, millrace.ErrNotFound) {
				yield(Message{}, err)
			}
			if err != nil || next == "" {
				return
			}
			cfg.After = next
		}
	}
}

// Redrive makes dead messages wait again, as if they had never been delivered and without
// their deadline. It returns how many of them were dead.
func (d DeadLetters) Redrive(ctx context.Context, ids ...string) (n int, err error) {
	letters, err := d.q.change(ctx, "redrive", ids)
	return strings.Count(letters, "x"), err
}

// Purge removes dead messages for good. It returns how many of them were dead.
func (d DeadLetters) Purge(ctx context.Context, ids ...string) (n int, err error) {
	letters, err := d.q.change(ctx, "purge", ids)
	return strings.Count(letters, "x"), err
}

// Keep bounds how many dead messages the queue keeps, and for how long, in whole milliseconds:
// without it [DefaultDeadMost] and [DefaultDeadAge]. When another one dies, the oldest are dropped,
// and [Counters].Dropped counts them. 0 is no bound.
func (d DeadLetters) Keep(ctx context.Context, most int, age time.Duration) error {
	if most < 0 || age < 0 {
		return millrace.ErrBadArgument.Errorf("a queue cannot keep %d dead messages for %s", most, age)
	}
	return d.q.set(ctx, "dead_most", strconv.Itoa(most), "dead_age", millis(age))
}

// DeadGroup is the dead messages that have a reason in common.
type DeadGroup struct {
	Reason         string
	Count          int
	Oldest, Newest time.Time // deaths
}

// Groups counts dead messages that match by their reason, the largest group first. It
// examines cfg.Look messages at most, and ignores cfg.State and cfg.Max. Found says how many
// it examined, and where to go on; it has no messages. A search with the Reason of a group
// returns its messages.
//
// Errors: those of [Queue.Browse].
func (d DeadLetters) Groups(ctx context.Context, cfg SearchConfig) ([]DeadGroup, Found, error) {
	cfg.State, cfg.Max = Dead, 0
	var found Found
	byReason := map[string]*DeadGroup{}
	err := d.q.look(ctx, &cfg, &found, func(m Message) bool {
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

// RedriveMatching makes dead messages that match wait again, as [DeadLetters.Redrive] does. It
// examines cfg.Look messages, by default all that are dead when it begins, in pages: those of
// a page wait again before the next one is examined. It ignores cfg.State and cfg.Max. It
// returns how many wait again. Found says how many it examined, and where to go on; it has no
// messages.
//
// Errors: those of [Queue.Browse]. With an error, some may wait again; Found.Next is where to
// repeat the call.
func (d DeadLetters) RedriveMatching(ctx context.Context, cfg SearchConfig) (int, Found, error) {
	return d.eachMatching(ctx, cfg, d.Redrive)
}

// PurgeMatching removes dead messages that match for good. The rest is as in
// [DeadLetters.RedriveMatching].
func (d DeadLetters) PurgeMatching(ctx context.Context, cfg SearchConfig) (int, Found, error) {
	return d.eachMatching(ctx, cfg, d.Purge)
}

// matchPage is how many messages are examined before something is done.
const matchPage = 10_000

// eachMatching calls do with the dead messages that match, a page after the other. Those that
// die meanwhile come last and are not examined.
func (d DeadLetters) eachMatching(ctx context.Context, cfg SearchConfig, do func(context.Context, ...string) (int, error)) (int, Found, error) {
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
		err := d.q.look(ctx, &page, &found, func(m Message) bool {
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
