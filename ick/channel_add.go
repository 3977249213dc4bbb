package ick

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
)

// Add marks members as dirty, each in its Ick; see [Ick.Add]. The Icks are asked
// at the same time. An error leaves the marks of the Icks that did not fail;
// adding all of them again does no harm.
//
// A producer that knows an old size adds with that until it learns better. That
// forgets nothing: Icks that are no longer used are served until they are empty,
// and then refuse marks, upon which Add asks for the new size.
//
// Errors: [millrace.ErrBadArgument] for a score that is not a number, before anything was added, and when Shard returns
// an index that is none; [millrace.ErrBroken], [millrace.ErrVersion], millrace.ErrFull.
func (c *Channel) Add(ctx context.Context, marks ...Entry) (Added, error) {
	return c.checked(ctx, marked(marks))
}

// AddNow marks members as dirty since now, by the clock of their Ick's server.
// It is Add in all else.
func (c *Channel) AddNow(ctx context.Context, members ...string) (Added, error) {
	return c.checked(ctx, markedNow(members))
}

func (c *Channel) checked(ctx context.Context, marks []mark) (Added, error) {
	if err := check(marks...); err != nil {
		return Added{}, err
	}
	return c.add(ctx, marks)
}

func (c *Channel) add(ctx context.Context, marks []mark) (Added, error) {
	var sum Added
	known, err := c.load(ctx)
	if err != nil {
		return sum, err
	}
	for try := 1; ; try++ {
		shares, err := c.share(marks, known.size)
		if err != nil {
			return sum, err
		}
		added, refused, err := shares.add(ctx)
		sum.New += added.New
		sum.Lowered += added.Lowered
		if err != nil || len(refused) == 0 {
			return sum, err
		}
		if try > 1 && !retry.Sleep(ctx, retry.Policy{}.Pause(try)) {
			return sum, context.Cause(ctx)
		}
		if known, err = c.reload(ctx); err != nil {
			return sum, err
		}
		marks = marks[:0:0]
		for _, s := range refused {
			marks = append(marks, s.marks...)
			if s.index < known.size {
				if err := s.ick.reopen(ctx, known.epoch); err != nil {
					return sum, err
				}
			}
		}
	}
}

// share is what one Ick gets of an add.
type share struct {
	index int
	ick   *Ick
	marks []mark
}

type shares []*share

// share sorts marks by their Icks.
func (c *Channel) share(marks []mark, size int) (shares, error) {
	var all shares
	byIndex := make(map[int]*share)
	for _, m := range marks {
		index := c.cfg.Shard(m.member, size)
		s := byIndex[index]
		if s == nil {
			if index < 0 || index >= size {
				return nil, millrace.ErrBadArgument.Errorf("Shard(%q, %d) returned %d", m.member, size, index)
			}
			k, err := c.ick(index)
			if err != nil {
				return nil, err
			}
			s = &share{index: index, ick: k}
			byIndex[index], all = s, append(all, s)
		}
		s.marks = append(s.marks, m)
	}
	return all, nil
}

// add adds all shares at once, and returns those whose Ick was retired.
func (all shares) add(ctx context.Context) (sum Added, refused shares, err error) {
	var mu sync.Mutex
	record := func(s *share, added Added, failed error) {
		mu.Lock()
		defer mu.Unlock()
		sum.New += added.New
		sum.Lowered += added.Lowered
		if errors.Is(failed, errRetired) {
			refused = append(refused, s)
		} else if err == nil {
			err = failed
		}
	}
	if len(all) == 1 {
		added, failed := all[0].ick.add(ctx, all[0].marks)
		record(all[0], added, failed)
		return sum, refused, err
	}
	var calls sync.WaitGroup
	for _, s := range all {
		calls.Go(func() {
			added, failed := s.ick.add(ctx, s.marks)
			record(s, added, failed)
		})
	}
	calls.Wait()
	return sum, refused, err
}
