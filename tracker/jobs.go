package tracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// Jobs returns the two jobs that keep the tracker in step with its source.
//
// The first, tracker.add, walks the table: a slice reads the next rows behind the cursor, at
// most [Config.AddRows], adds the identifiers with work, and moves the cursor. After
// the last row the next pass begins. It reports More until the first pass is complete;
// afterwards the rounds never end, and one slice at a time is enough.
//
// The second, tracker.verify, removes finished work: a slice takes the identifiers with the
// oldest stamps, at most [Config.VerifyIDs] and none within [Config.Grace], asks the source
// about them, stamps those that have work and removes the others. It reports More after a
// full slice that removed more than a tenth, and Idle when there was nothing to verify.
//
// A slice that fails, or that another slice overtook, changes nothing, and the next one
// repeats it. After the source failed or took more than half of a slice's budget, the next
// slices ask for less.
func (t *Tracker) Jobs() []millrace.Job {
	return []millrace.Job{
		{Name: "tracker.add:" + t.name, Slice: t.addSlice},
		{Name: "tracker.verify:" + t.name, Slice: t.verifySlice},
	}
}

func (t *Tracker) addSlice(ctx context.Context) (millrace.Progress, error) {
	s, err := t.walk(ctx, &t.slices, t.cfg.AddRows)
	switch {
	case err != nil || !s.moved:
		return millrace.Idle, err
	case s.passes == "0":
		return millrace.More, nil
	case s.looked == 0:
		return millrace.Idle, nil
	}
	return millrace.Worked, nil
}

// Fill completes the current pass at once, 10,000 rows at a time, so that the first pass need
// not wait for idle moments. It shares the cursor with the jobs. After each step it calls
// progress, which may be nil, with the number of rows it has read so far. After a failure
// another Fill continues. Errors: those of the source, [millrace.ErrBadArgument] without one,
// [ErrSource], [millrace.ErrBroken], [millrace.ErrVersion], and [millrace.ErrFull].
func (t *Tracker) Fill(ctx context.Context, progress func(rows int)) error {
	passes, rows := "", 0
	for {
		step, err := t.walk(ctx, &t.run, maxRows)
		if err != nil {
			return err
		}
		if passes == "" {
			passes = step.at.passes
		}
		if rows += step.looked; progress != nil {
			progress(rows)
		}
		// A pass is complete, unless the record was lost and counts from 0 again.
		if step.passes != passes && step.passes != "0" {
			return nil
		}
		passes = step.passes
	}
}

type place struct {
	now    string // the server's clock, before the source was asked
	life   string // of the record
	passes string // complete passes
	cursor string
}

type step struct {
	at     place
	moved  bool   // false when another slice was faster
	passes string // complete passes, afterwards
	looked int    // rows read, if moved
}

// walk does a slice of a pass.
func (t *Tracker) walk(ctx context.Context, run *script.Runner, limit int) (step, error) {
	at, err := t.place(ctx, run)
	if err != nil {
		return step{}, err
	}
	page, err := t.page(ctx, at.cursor, limit)
	if err != nil {
		return step{}, err
	}
	return t.advance(ctx, run, at, page)
}

func (t *Tracker) place(ctx context.Context, run *script.Runner) (place, error) {
	values, err := t.texts(ctx, run, 4, "place")
	if err != nil {
		return place{}, err
	}
	return place{now: values[0], life: values[1], passes: values[2], cursor: values[3]}, nil
}

func (t *Tracker) page(ctx context.Context, after string, limit int) (page Page, err error) {
	n := t.rowPace.size(limit)
	err = t.ask(ctx, &t.rowPace, n, limit, after, func(source Source) error {
		page, err = source.Rows(ctx, after, n)
		return err
	})
	if err != nil {
		return page, err
	}
	return page, checkPage(page, after)
}

// ask calls the source for n rows or identifiers, and adapts the pace.
func (t *Tracker) ask(ctx context.Context, p *pace, n, most int, next string, call func(Source) error) error {
	if t.cfg.Source == nil {
		return millrace.ErrBadArgument.Errorf("the tracker has no Source: only programs with one fill and verify it")
	}
	began := time.Now()
	err := call(t.cfg.Source)
	p.learn(ctx, began, n, most, err)
	if err == nil {
		return nil
	}
	if p.stuck(ctx, n) {
		t.cfg.Logger.WarnContext(ctx, "a tracker does not advance: the source takes longer for one row than the budget of a slice",
			"tracker", t.name, "next", next, "took", time.Since(began), "error", err)
	}
	if _, ok := errors.AsType[*millrace.Error](err); ok {
		return err
	}
	return fmt.Errorf("ask the tracker's source: %w", err)
}

// advance adds the identifiers of a page and moves the cursor.
func (t *Tracker) advance(ctx context.Context, run *script.Runner, at place, page Page) (step, error) {
	args := append(make([]string, 0, 5+len(page.IDs)), at.life, at.passes, at.cursor, at.now, page.Next)
	for _, id := range slices.Compact(slices.Sorted(slices.Values(page.IDs))) {
		if err := checkID(id); err != nil {
			t.cfg.Logger.WarnContext(ctx, "a row's identifier cannot be tracked", "tracker", t.name, "before", page.Next, "error", err)
			continue
		}
		args = append(args, id)
	}
	values, err := t.texts(ctx, run, 2, "advance", args...)
	if err != nil {
		return step{}, err
	}
	t.entry.Touch()
	s := step{at: at, moved: values[0] == "1", passes: values[1]}
	if s.moved {
		s.looked = page.Looked
	}
	return s, nil
}

func (t *Tracker) verifySlice(ctx context.Context) (millrace.Progress, error) {
	n := t.idPace.size(t.cfg.VerifyIDs)
	old, err := t.oldest(ctx, n)
	if err != nil || len(old.ids) == 0 {
		return millrace.Idle, err
	}
	pending, err := t.pending(ctx, old.ids, n)
	if err != nil {
		return millrace.Idle, err
	}
	removed, err := t.settle(ctx, old, pending)
	switch {
	case err != nil:
		return millrace.Idle, err
	case len(old.ids) == n && removed > len(old.ids)/10:
		return millrace.More, nil
	}
	return millrace.Worked, nil
}

type aged struct {
	now    string // the server's clock, before the source was asked
	ids    []string
	stamps []string // at that time
}

func (t *Tracker) oldest(ctx context.Context, n int) (aged, error) {
	values, err := t.texts(ctx, &t.slices, 1, "oldest", strconv.Itoa(n), strconv.FormatInt(t.cfg.Grace.Milliseconds(), 10))
	if err != nil {
		return aged{}, err
	}
	old := aged{now: values[0]}
	for i := 1; i+1 < len(values); i += 2 {
		old.ids, old.stamps = append(old.ids, values[i]), append(old.stamps, values[i+1])
	}
	return old, nil
}

// pending asks the source which identifiers have work queued, of n asked for.
func (t *Tracker) pending(ctx context.Context, ids []string, n int) (pending []string, err error) {
	err = t.ask(ctx, &t.idPace, n, t.cfg.VerifyIDs, ids[0], func(source Source) error {
		pending, err = source.Pending(ctx, ids)
		return err
	})
	return pending, err
}

// settle stamps the pending identifiers, removes the others, and returns the number removed.
func (t *Tracker) settle(ctx context.Context, old aged, pending []string) (int, error) {
	live := make(map[string]string, len(old.ids))
	for _, id := range pending {
		live[id] = "1"
	}
	args := append(make([]string, 0, 1+3*len(old.ids)), old.now)
	for i, id := range old.ids {
		args = append(args, id, old.stamps[i], cmp.Or(live[id], "0"))
	}
	values, err := t.texts(ctx, &t.slices, 2, "settle", args...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(values[1])
}
