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
	"github.com/millrace/millrace/internal/script"
)

const (
	// listTimeout is how long one step of a list may wait for a server.
	listTimeout = 2 * time.Second

	// listCount is how many entries a server looks at in one step of a list.
	listCount = 1000
)

// List yields the names of the existing structures of a kind, each once, in no order, except
// those that check refuses. Where servers do not answer, it yields the names of the others and
// then an error, derived from [millrace.ErrPartial] or the servers' own if none has answered.
// Each step takes two seconds at most.
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

// found is what one step of a list has found.
type found struct {
	names []string
	err   error
}

func (l list) all(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		steps := make(chan found)
		var reading sync.WaitGroup
		for shard := range l.book.shards {
			reading.Go(func() { l.read(within, shard, steps) })
		}
		go func() {
			reading.Wait()
			close(steps)
		}()
		defer func() { // goroutines end when nobody listens any more
			cancel()
			for range steps {
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
		case steps <- found{l.there(ctx, page.Elements), err}:
		case <-ctx.Done():
			return
		}
		if cursor = page.Cursor; cursor == 0 || err != nil {
			return
		}
	}
}

// step asks for the next members of a shard, and their values, which follow them.
func (l list) step(ctx context.Context, shard int, cursor uint64) (rueidis.ScanEntry, error) {
	ctx, cancel := script.Within(ctx, listTimeout)
	defer cancel()
	l.book.settle(ctx, shard)
	return script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
		return l.client.Do(ctx, l.scan(shard, cursor)).AsScanEntry()
	})
}

// there returns the names of those members whose structures are there, or might be: those
// of a server that does not answer.
func (l list) there(ctx context.Context, pairs []string) []string {
	var names []string
	var questions rueidis.Commands
	for pair := range slices.Chunk(pairs, 2) {
		name := l.name(pair[0])
		names = append(names, name)
		questions = append(questions, l.client.B().Exists().Key(l.keys(name)...).Build())
	}
	var there []string
	for i, answer := range multi(ctx, l.client, questions) {
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			there = append(there, names[i])
		}
	}
	return there
}
