package fairqueue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
)

// Failures counts messages that failed and match, by their error, the largest number first: retries that wait for their
// time, or dead messages if cfg.State is [Dead]. Texts that differ in numbers only are one error. It examines cfg.Look
// messages at most, and ignores cfg.Max. Found says how many it examined, and where to go on; it has no messages. A search
// with the Reason of one returns its messages.
//
// Errors: those of [Queue.Browse].
func (q *Queue) Failures(ctx context.Context, cfg SearchConfig) ([]queuestats.Failures, Found, error) {
	cfg.State, cfg.Max = cmp.Or(cfg.State, Delayed), 0
	var found Found
	byReason := map[string]*queuestats.Failures{}
	err := q.look(ctx, &cfg, &found, func(m Message) bool {
		if m.Attempt == 0 && cfg.State != Dead {
			return true // it was delayed by its writer
		}
		reason := cmp.Or(m.Reason, noReason)
		key := withoutNumbers(reason)
		f := byReason[key]
		if f == nil {
			f = &queuestats.Failures{Reason: reason, Oldest: m.Since, Newest: m.Since, Next: m.Until, Tenants: map[string]int{}}
			byReason[key] = f
		}
		f.Reason = inCommon(f.Reason, reason)
		f.Count, f.Tenants[m.Tenant] = f.Count+1, f.Tenants[m.Tenant]+1
		if f.Oldest = earlier(m.Since, f.Oldest); m.Since.After(f.Newest) {
			f.Newest = m.Since
		}
		return true
	})
	all := make([]queuestats.Failures, 0, len(byReason))
	for _, f := range byReason {
		if len(f.Tenants) == 1 {
			f.Tenant = slices.Collect(maps.Keys(f.Tenants))[0]
		}
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b queuestats.Failures) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return all, found, err
}

// Retry makes messages wait at once that wait for their time, by their ids, and keeps their attempts. Without ids it does
// so to those that failed and match. It makes dead messages wait again, as [DeadLetters.Redrive] does, if cfg.State is
// [Dead]. It returns how many wait now. With ids the rest of cfg does not count.
//
// Without ids it examines cfg.Look messages, by default all that are in the state when it begins, in pages: those of a page
// wait before the next one is examined. It ignores cfg.Max. Found says how many it examined, and where to go on; it has no
// messages.
//
// Errors: those of [Queue.Browse]. With an error, some may wait; Found.Next is where to repeat the call.
func (q *Queue) Retry(ctx context.Context, cfg SearchConfig, ids ...string) (n int, found Found, err error) {
	cfg.State = cmp.Or(cfg.State, Delayed)
	do := func(ctx context.Context, ids ...string) (int, error) {
		verb := "retry"
		if cfg.State == Dead {
			verb = "redrive"
		}
		letters, err := q.change(ctx, verb, ids)
		return len(letters) - strings.Count(letters, "-"), err
	}
	switch {
	case cfg.State != Delayed && cfg.State != Dead:
		return 0, found, millrace.ErrBadArgument.Errorf("messages that are %s are not retried: only %s and %s ones", cfg.State, Delayed, Dead)
	case len(ids) > 0:
		n, err = do(ctx, ids...)
		return n, found, err
	}
	return q.eachMatching(ctx, cfg, do)
}

// matchPage is how many messages are examined before something is done.
const matchPage = 10_000

// eachMatching calls do with the messages that failed and match, a page after the other. Those that come into the state
// meanwhile are not counted as those to examine.
func (q *Queue) eachMatching(ctx context.Context, cfg SearchConfig, do func(context.Context, ...string) (int, error)) (int, Found, error) {
	cfg.Max = 0
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
			if m.Attempt > 0 || cfg.State == Dead {
				ids = append(ids, m.ID)
			}
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
