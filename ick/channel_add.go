package ick

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Add marks members as dirty, each in its Ick; see [Ick.Add]. It calls the Icks at the same time.
// After an error the marks of the other Icks stay; adding all of them again does no harm.
//
// A producer with an old size adds with that until it learns the new one, and loses no marks:
// Icks that are no longer used are served until they are empty. Then they refuse marks, and Add
// reads the new size.
//
// Errors: [millrace.ErrBadArgument] for a score that is not a number, before anything is added,
// and when Shard returns an invalid index; [millrace.ErrBroken], [millrace.ErrVersion],
// [millrace.ErrFull].
func (c *Channel) Add(ctx context.Context, marks ...Entry) (Added, error) {
	return addEntries(ctx, marks, c.add)
}

// AddNow is Add with the time of the Ick's server as the score.
func (c *Channel) AddNow(ctx context.Context, members ...string) (Added, error) {
	return addMembers(ctx, members, c.add)
}

// add adds marks, and repeats those that a retired Ick refused with the current layout.
func (c *Channel) add(ctx context.Context, marks []mark) (sum Added, err error) {
	known, err := c.load(ctx)
	for try := 1; err == nil; try++ {
		shares, err := c.share(marks, known.size)
		if err != nil {
			return sum, err
		}
		added, refused, err := c.addShares(ctx, shares)
		sum.add(added)
		if err != nil || len(refused) == 0 {
			return sum, err
		}
		if try > 1 && !retry.Sleep(ctx, retry.Policy{}.Pause(try)) {
			return sum, context.Cause(ctx)
		}
		if known, err = c.reload(ctx); err != nil {
			return sum, err
		}
		marks = nil
		for index, k := range refused {
			marks = append(marks, shares[index]...)
			if index < known.size {
				if err := k.reopen(ctx, known.epoch); err != nil {
					return sum, err
				}
			}
		}
	}
	return sum, err
}

// share returns the marks of each Ick by its index.
func (c *Channel) share(marks []mark, size int) (map[int][]mark, error) {
	shares := make(map[int][]mark)
	for _, m := range marks {
		index := c.cfg.Shard(m.member, size)
		if index < 0 || index >= size {
			return nil, millrace.ErrBadArgument.Errorf("Shard(%q, %d) returned %d", m.member, size, index)
		}
		shares[index] = append(shares[index], m)
	}
	return shares, nil
}

// addShares adds to all Icks at the same time, and returns those that are retired.
func (c *Channel) addShares(ctx context.Context, shares map[int][]mark) (sum Added, refused map[int]*Ick, err error) {
	refused = make(map[int]*Ick)
	var mu sync.Mutex
	var calls sync.WaitGroup
	for index, marks := range shares {
		add := func() {
			var added Added
			k, failed := c.ick(index)
			if failed == nil {
				added, failed = k.add(ctx, marks)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(added)
			if errors.Is(failed, errRetired) {
				refused[index] = k
			} else if err == nil {
				err = failed
			}
		}
		if len(shares) == 1 {
			add()
		} else {
			calls.Go(add)
		}
	}
	calls.Wait()
	return sum, refused, err
}
