package registry

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// listTimeout is how long one step of a list may wait for a server.
	listTimeout = 2 * time.Second

	// listCount is how many entries a server examines in one step of a list.
	listCount = 1000
)

// List yields the names of the existing structures of a kind that check accepts, each once, in no
// order. Where servers do not answer, it yields the names that the others have and then an error,
// derived from [millrace.ErrPartial], or a server's own error if none has answered. Each
// step takes two seconds at most.
func List(ctx context.Context, client rueidis.Client, kind Kind, check func(name string) error) iter.Seq2[string, error] {
	return list{
		check:  check,
		client: client,
		book:   Of(client).structures,
		scan: func(shard int, cursor uint64) rueidis.Completed {
			return client.B().Hscan().Key(key(shard)).Cursor(cursor).Match(field(kind, "*")).Count(listCount).Build()
		},
		name: func(member string) string { return strings.TrimPrefix(member, field(kind, "")) },
		keys: kind.keys,
		what: "the registry",
	}.all(ctx)
}

// ListLeases yields the names of the existing leases in the index, as List does.
func ListLeases(ctx context.Context, client rueidis.Client, check func(name string) error) iter.Seq2[string, error] {
	return list{
		check:  check,
		client: client,
		book:   Of(client).leases,
		scan: func(shard int, cursor uint64) rueidis.Completed {
			return client.B().Zscan().Key(LeasesKey(shard)).Cursor(cursor).Count(listCount).Build()
		},
		name: func(member string) string { return member },
		keys: func(name string) []string { return []string{leasePrefix + name + "}"} },
		what: "the index of leases",
	}.all(ctx)
}

// list goes through members of all shards of a book.
type list struct {
	client rueidis.Client
	book   *book
	check  func(name string) error
	scan   func(shard int, cursor uint64) rueidis.Completed
	name   func(member string) string
	keys   func(name string) []string
	what   string
}

// found is the result of one step of a list.
type found struct {
	names []string
	err   error
}

func (l list) all(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		within, cancel := context.WithCancel(ctx)
		steps := make(chan found)
		var reading sync.WaitGroup
		for shard := range l.book.shards {
			reading.Go(func() { l.read(within, shard, steps) })
		}
		go func() {
			reading.Wait()
			close(steps)
		}()
		defer func() {
			cancel()
			for range steps { // until the goroutines have ended
			}
		}()

		seen := map[string]bool{}
		missing, cause := 0, error(nil)
		for step := range steps {
			if step.err != nil {
				missing++
				cause = step.err
			}
			for _, name := range step.names {
				if seen[name] || l.check != nil && l.check(name) != nil {
					continue
				}
				seen[name] = true
				if !yield(name, nil) {
					return
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			yield("", context.Cause(ctx))
		case missing == len(l.book.shards):
			yield("", cause)
		case missing > 0:
			yield("", millrace.ErrPartial.Errorf("%d of %d parts of %s could not be read", missing, len(l.book.shards), l.what).Wrap(cause))
		}
	}
}

// read goes through one shard.
func (l list) read(ctx context.Context, shard int, steps chan<- found) {
	for cursor := uint64(0); ; {
		page, err := l.step(ctx, shard, cursor)
		select {
		case steps <- found{l.existing(ctx, page.Elements), err}:
		case <-ctx.Done():
			return
		}
		if cursor = page.Cursor; cursor == 0 || err != nil {
			return
		}
	}
}

// step reads the next members of a shard, each followed by its value.
func (l list) step(ctx context.Context, shard int, cursor uint64) (rueidis.ScanEntry, error) {
	ctx, cancel := script.Within(ctx, listTimeout)
	defer cancel()
	l.book.settle(ctx, shard)
	return script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
		return l.client.Do(ctx, l.scan(shard, cursor).Pin()).AsScanEntry() // the client may send it twice
	})
}

// existing returns the names whose structures exist, or may exist on a server that does
// not answer.
func (l list) existing(ctx context.Context, pairs []string) (names []string) {
	var cmds rueidis.Commands
	for pair := range slices.Chunk(pairs, 2) {
		cmds = append(cmds, l.client.B().Exists().Key(l.keys(l.name(pair[0]))...).Build())
	}
	for i, answer := range multi(ctx, l.client, cmds) {
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			names = append(names, l.name(pairs[2*i]))
		}
	}
	return names
}

// multi sends commands. When there is no answer in time, each has that error.
func multi(ctx context.Context, client rueidis.Client, cmds rueidis.Commands) []rueidis.RedisResult {
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := script.Within(ctx, listTimeout)
	defer cancel()
	n := len(cmds)
	for i := range cmds {
		cmds[i] = cmds[i].Pin() // the client may send it twice
	}
	answers, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		return client.DoMulti(ctx, cmds...), nil
	})
	if err != nil {
		answers = slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, n)
	}
	return answers
}
