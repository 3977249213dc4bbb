package shards

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// each calls do for all shards at the same time, and returns their number as the record
// says it. A shard that does not exist is no error.
func (s *Space) each(ctx context.Context, do func(base string, shards int) error) (int, error) {
	shards, err := s.recount(ctx, false)
	if err != nil {
		return 0, err
	}
	_, err = inShards(s.bases(shards), func(_ int, base string) error { return do(base, shards) })
	return shards, err
}

func (s *Space) bases(shards int) []string {
	bases := make([]string, shards)
	for i := range bases {
		bases[i] = s.Kind.ShardKey(s.Name, i)
	}
	return bases
}

// inShards calls do for shards at the same time. It reports whether one of them does not
// exist, which is no error.
func inShards(bases []string, do func(i int, base string) error) (missing bool, err error) {
	failed := make([]error, len(bases))
	var none atomic.Bool
	var running sync.WaitGroup
	for i, base := range bases {
		running.Go(func() {
			err := do(i, base)
			switch {
			case errors.Is(err, errShards):
				failed[i] = millrace.ErrBroken.Wrap(err)
			case errors.Is(err, errNoShard):
				none.Store(true)
			default:
				failed[i] = err
			}
		})
	}
	running.Wait()
	return none.Load(), errors.Join(failed...)
}

// Stats runs the script stats on all shards at the same time, passes each reply to add,
// one at a time, and returns the number of shards.
func (s *Space) Stats(ctx context.Context, add func(r *script.Reply)) (shards int, err error) {
	var mu sync.Mutex
	return s.each(ctx, func(base string, shards int) error {
		reply, err := s.Ask(ctx, nil, "stats", base, shards)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		add(reply)
		return reply.Err()
	})
}

// Delete calls remove for all shards at the same time, and then removes the record.
func (s *Space) Delete(ctx context.Context, remove func(base string, shards int) error) error {
	if _, err := s.each(ctx, remove); err != nil {
		return err
	}
	c := s.Run.Client
	s.Known.Store(0)
	if err := s.Run.Name(s.Run.Retry.Do(ctx, func(int) error {
		_, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
			return c.Do(ctx, c.B().Unlink().Key(s.Kind.RecordKey(s.Name)).Build()).AsInt64()
		})
		return err
	})); err != nil {
		return err
	}
	s.entry.Leave(ctx)
	return nil
}

// indexPage is about how many names a page of an index has.
const indexPage = 100

// Names yields the names in the indexes of all shards.
func (s *Space) Names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		shards, err := s.recount(ctx, false)
		if err != nil {
			yield("", err)
			return
		}
		for i := range shards {
			for cursor := uint64(0); ; {
				page, next, err := s.Index(ctx, s.Kind.ShardKey(s.Name, i), cursor)
				if err != nil {
					yield("", err)
					return
				}
				for _, name := range page {
					if !yield(name, nil) {
						return
					}
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
	}
}

// Index reads a page of names from the index of a shard, and the cursor of the next page.
func (s *Space) Index(ctx context.Context, base string, cursor uint64) (names []string, next uint64, err error) {
	c := s.Run.Client
	err = s.Run.Retry.Do(ctx, func(int) error {
		page, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
			return c.Do(ctx, c.B().Zscan().Key(base+":due").Cursor(cursor).Count(indexPage).Build().Pin()).AsScanEntry()
		})
		names, next = names[:0], page.Cursor
		for i := 0; i < len(page.Elements); i += 2 {
			if name := page.Elements[i]; name != placeholder {
				names = append(names, name)
			}
		}
		return err
	})
	return names, next, s.Run.Name(err)
}

// placeholder is the member that keeps an empty index in existence.
const placeholder = ""

type due struct {
	names []string      // those whose time has come
	wait  time.Duration // until the first one's time comes
}

// Overdue returns the names in the index of a shard whose time has come, at most so many,
// the earliest first.
func (s *Space) Overdue(ctx context.Context, most int, base string) ([]string, error) {
	all, err := s.due(ctx, most, base)
	if err != nil {
		return nil, err
	}
	return all[0].names, nil
}

// due looks into the indexes of shards. For a shard that fails it returns one empty name:
// the call that follows returns the error.
func (s *Space) due(ctx context.Context, most int, bases ...string) ([]due, error) {
	c := s.Run.Client
	results, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		cmds := make(rueidis.Commands, 0, len(bases)+1)
		for _, base := range bases {
			cmds = append(cmds, c.B().Zrange().Key(base+":due").Min("0").Max(strconv.Itoa(most-1)).Withscores().Build().Pin())
		}
		return c.DoMulti(ctx, append(cmds, timeAt(c, bases[0]))...), nil
	})
	if err != nil {
		return nil, err
	}
	now, err := microsOf(results[len(bases)])
	all := make([]due, len(bases))
	for i := range bases {
		heads, failed := results[i].AsZScores()
		if failed != nil {
			heads = []rueidis.ZScore{{}}
		}
		all[i].wait = time.Hour
		for _, head := range heads {
			if head.Score <= float64(now/1000) {
				all[i].names = append(all[i].names, head.Member)
			} else if wait := head.Score - float64(now/1000); wait < 3.6e6 {
				all[i].wait = min(all[i].wait, time.Duration(wait)*time.Millisecond)
			}
		}
	}
	return all, s.Run.Name(err)
}
