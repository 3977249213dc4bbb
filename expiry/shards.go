package expiry

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// each calls do for all shards at the same time, by what the record says now, and
// returns how many there are. A shard in which nothing was stored is no error.
func (n *namespace) each(ctx context.Context, do func(base string, shards int) error) (int, error) {
	shards, err := n.recount(ctx, false)
	if err != nil {
		return 0, err
	}
	_, err = n.inShards(n.bases(shards), func(base string) error { return do(base, shards) })
	return shards, err
}

// bases are the base keys of so many shards.
func (n *namespace) bases(shards int) []string {
	bases := make([]string, shards)
	for i := range bases {
		bases[i] = n.kind.shardKey(n.name, i)
	}
	return bases
}

// inShards calls do for shards at the same time. It reports whether in one of them nothing
// was stored, which is no error.
func (n *namespace) inShards(bases []string, do func(base string) error) (missing bool, err error) {
	failed := make([]error, len(bases))
	var none atomic.Bool
	var running sync.WaitGroup
	for i, base := range bases {
		running.Go(func() {
			err := do(base)
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

// eachDue calls do for the shards in which something is due, and for one more by turns,
// which also finds out whether the namespace is still the one that is known. On one server
// a pipeline asks all shards what is due: a look that finds nothing must cost little,
// since every process takes one every few seconds.
func (n *namespace) eachDue(ctx context.Context, do func(base string, shards int, due bool) error) error {
	shards, err := n.count(ctx, false)
	if err != nil || shards == 0 {
		return err
	}
	bases := n.bases(shards)
	look := func(base string) ([][]string, error) { return n.overdue(ctx, 1, base) }
	if n.run.Client.Mode() != rueidis.ClientModeCluster { // where one that is silent must not keep the others
		due, err := n.overdue(ctx, 1, bases...)
		if err != nil {
			return err
		}
		look = func(base string) ([][]string, error) { return due[slices.Index(bases, base):], nil }
	}
	turn := bases[int(n.turn.Add(1))%shards]
	missing, err := n.inShards(bases, func(base string) error {
		due, err := look(base)
		if err != nil || len(due[0]) == 0 && base != turn {
			return err
		}
		return do(base, shards, len(due[0]) > 0)
	})
	if missing || errors.Is(err, errShards) {
		if now, lost := n.recount(ctx, false); lost != nil || now != shards {
			return lost // the next slice goes by the new number
		}
	}
	return err
}

// overdue returns for each shard the first names in its index whose time has come, at most
// so many. A shard that fails has one name, "", for others to find out.
func (n *namespace) overdue(ctx context.Context, most int, bases ...string) ([][]string, error) {
	c := n.run.Client
	results, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		cmds := make(rueidis.Commands, len(bases))
		for i, base := range bases {
			cmds[i] = c.B().Zrange().Key(base + ":due").Min("0").Max(strconv.Itoa(most - 1)).Withscores().Build()
		}
		return c.DoMulti(ctx, append(cmds, timeAt(c, bases[0]))...), nil
	})
	if err != nil {
		return nil, err
	}
	now, err := microsOf(results[len(bases)])
	names := make([][]string, len(bases))
	for i := range bases {
		heads, failed := results[i].AsZScores()
		if failed != nil {
			heads = []rueidis.ZScore{{}}
		}
		for _, head := range heads {
			if head.Score <= float64(now/1000) {
				names[i] = append(names[i], head.Member)
			}
		}
	}
	return names, n.run.Name(err)
}

// indexPage is about how many names a page of an index has.
const indexPage = 100

// names goes through the names in the indexes of all shards.
func (n *namespace) names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		shards, err := n.recount(ctx, false)
		if err != nil {
			yield("", err)
			return
		}
		for i := range shards {
			for cursor := uint64(0); ; {
				page, next, err := n.index(ctx, n.kind.shardKey(n.name, i), cursor)
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

// index brings a page of the names in the index of a shard, and the cursor of the next.
func (n *namespace) index(ctx context.Context, base string, cursor uint64) (names []string, next uint64, err error) {
	c := n.run.Client
	err = n.run.Retry.Do(ctx, func(int) error {
		page, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
			return c.Do(ctx, c.B().Zscan().Key(base+":due").Cursor(cursor).Count(indexPage).Build()).AsScanEntry()
		})
		names, next = names[:0], page.Cursor
		for i := 0; i < len(page.Elements); i += 2 {
			if name := page.Elements[i]; name != "" { // which is the placeholder
				names = append(names, name)
			}
		}
		return err
	})
	return names, next, n.run.Name(err)
}
