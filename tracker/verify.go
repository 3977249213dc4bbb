package tracker

import (
	"context"
	"strconv"
	"time"

	"github.com/millrace/millrace"
)

// VerifyJob returns the job that removes what has no work queued any more: a slice
// takes the identifiers that were seen the longest ago, at most
// [Config.VerifyIDs] and none within [Config.Grace], asks the source about them,
// stamps those that have work and removes the others. So every identifier has
// its turn. A slice that fails changes nothing, and the next one repeats it. After one
// whose source failed, or took more than half of its time, the next ones ask about fewer.
//
// It reports that more is due when it was full and more than a tenth was removed,
// and is idle when there was nobody to ask about.
func (t *Tracker) VerifyJob() millrace.Job {
	return millrace.Job{Name: "tracker.verify:" + t.name, Slice: t.verifySlice}
}

func (t *Tracker) verifySlice(ctx context.Context) (millrace.Progress, error) {
	n := t.asks.size(t.cfg.VerifyIDs)
	old, err := t.oldest(ctx, n)
	if err != nil || len(old.ids) == 0 {
		return millrace.Idle, err
	}
	began := time.Now()
	pending, err := t.pending(ctx, old.ids)
	t.asks.learn(ctx, began, n, t.cfg.VerifyIDs, err)
	if err != nil {
		return millrace.Idle, err
	}
	removed, err := t.settle(ctx, old, pending)
	switch {
	case err != nil:
		return millrace.Idle, err
	case len(old.ids) == n && removed > len(old.ids)/10:
		return millrace.Full, nil
	}
	return millrace.Worked, nil
}

// aged are the identifiers to ask about.
type aged struct {
	now    string // the server's clock, before the source was asked
	ids    []string
	stamps []string // as they were then
}

func (t *Tracker) oldest(ctx context.Context, n int) (aged, error) {
	values, err := t.texts(ctx, &t.slices, 1, "oldest",
		strconv.Itoa(n), strconv.FormatInt(t.cfg.Grace.Milliseconds(), 10))
	if err != nil {
		return aged{}, err
	}
	old := aged{now: values[0]}
	for i := 1; i+1 < len(values); i += 2 {
		old.ids = append(old.ids, values[i])
		old.stamps = append(old.stamps, values[i+1])
	}
	return old, nil
}

// pending asks the source and returns those that have work queued.
func (t *Tracker) pending(ctx context.Context, ids []string) (map[string]bool, error) {
	if t.cfg.Source == nil {
		return nil, errNoSource()
	}
	list, err := t.cfg.Source.Pending(ctx, ids)
	if err != nil {
		return nil, sourceError(err)
	}
	pending := make(map[string]bool, len(list))
	for _, id := range list {
		pending[id] = true
	}
	return pending, nil
}

// settle stamps those that are pending, removes the others, and returns how many
// it removed.
func (t *Tracker) settle(ctx context.Context, old aged, pending map[string]bool) (int, error) {
	args := append(make([]string, 0, 1+3*len(old.ids)), old.now)
	for i, id := range old.ids {
		live := "0"
		if pending[id] {
			live = "1"
		}
		args = append(args, id, old.stamps[i], live)
	}
	values, err := t.texts(ctx, &t.slices, 2, "settle", args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(values[1])
}
