package tracker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// AddJob returns the job that walks the table: a slice looks at the next rows behind
// the cursor, at most [Config.AddRows], adds the identifiers of those with work, and moves
// the cursor behind all of them. Behind the last row a pass is over and the next one
// begins. A slice that fails, or that another one overtook, changes nothing, and the next
// slice repeats it. After one whose source failed, or took more than half of its time, the
// next ones look at fewer rows: so they get on however slow the source is.
//
// It reports that more is due until the first pass is over; afterwards there is
// no end to the rounds, and one slice at a time will do.
func (t *Tracker) AddJob() millrace.Job {
	return millrace.Job{Name: "tracker.add:" + t.name, Slice: t.addSlice}
}

func (t *Tracker) addSlice(ctx context.Context) (millrace.Progress, error) {
	p, err := t.walk(ctx, &t.slices, t.cfg.AddRows)
	switch {
	case err != nil || !p.moved:
		return millrace.Idle, err
	case p.passes == "0":
		return millrace.Full, nil
	case p.looked == 0:
		return millrace.Idle, nil
	}
	return millrace.Worked, nil
}

// Fill goes on with the pass under way until it is over, [MaxRows] rows at a
// time: by hand, so that the first one need not wait for stolen moments. It
// shares the cursor with the jobs that run meanwhile. After each step, progress
// is told how many rows this call has looked at so far; it may be nil. When Fill
// fails, another one goes on where it ended. Errors: those of the source,
// [millrace.ErrBadArgument] without one, [ErrSource], [millrace.ErrBroken], [millrace.ErrVersion], and
// millrace.ErrFull.
func (t *Tracker) Fill(ctx context.Context, progress func(rows int)) error {
	passes, rows := "", 0
	for {
		step, err := t.walk(ctx, &t.run, MaxRows)
		if err != nil {
			return err
		}
		if passes == "" {
			passes = step.at.passes
		}
		if rows += step.looked; progress != nil {
			progress(rows)
		}
		// Somebody ended a pass, unless the record was lost and counts from 0 again.
		if step.passes != passes && step.passes != "0" {
			return nil
		}
		passes = step.passes
	}
}

// place is where a pass has got to.
type place struct {
	now    string // the server's clock, before the source was asked
	life   string // of the record
	passes string // full passes, before
	cursor Cursor
}

// step is what became of a slice of a pass.
type step struct {
	at     place
	moved  bool   // false when somebody else was faster
	passes string // full passes, after
	looked int    // rows looked at, if it moved
}

// walk does a slice of a pass: where are we, what comes next, go on.
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
	return place{now: values[0], life: values[1], passes: values[2], cursor: Cursor(values[3])}, nil
}

// page asks the source for what comes next.
func (t *Tracker) page(ctx context.Context, after Cursor, limit int) (page Page, err error) {
	if t.cfg.Source == nil {
		return page, errNoSource()
	}
	n, began := t.looks.size(limit), time.Now()
	page, err = t.cfg.Source.Rows(ctx, after, n)
	t.looks.learn(ctx, began, n, limit, err)
	if err != nil {
		return page, sourceError(err)
	}
	return page, checkPage(page, after)
}

func errNoSource() error {
	return millrace.ErrBadArgument.Errorf("the tracker has no Source: only programs with one fill and verify it")
}

// sourceError says where an error came from, unless it says so itself.
func sourceError(err error) error {
	if _, ok := errors.AsType[*millrace.Error](err); ok {
		return err
	}
	return fmt.Errorf("ask the tracker's source: %w", err)
}

func (t *Tracker) advance(ctx context.Context, run *script.Runner, at place, page Page) (step, error) {
	args := append(make([]string, 0, 5+len(page.IDs)), at.life, at.passes, string(at.cursor), at.now, string(page.Next))
	seen := make(map[string]struct{}, len(page.IDs))
	for _, id := range page.IDs {
		if _, again := seen[id]; again {
			continue
		}
		seen[id] = struct{}{}
		if err := CheckID(id); err != nil {
			t.cfg.Logger.WarnContext(ctx, "a row's identifier cannot be tracked", "tracker", t.name, "before", string(page.Next), "error", err)
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
