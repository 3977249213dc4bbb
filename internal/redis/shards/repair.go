package shards

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

// RepairPage repairs one page of a shard. It reports whether anything was wrong, and where the
// next page begins, which is the zero value at the end. After an error it returns the position
// that failed.
type RepairPage func(ctx context.Context, s *Space, base string, shards int, at Position) (wrong bool, next Position, err error)

// Position is how far a repair is in a shard.
type Position struct {
	Page   string // cursor of the page of names, if there is one
	Name   string // of the hash on that page
	Part   string // part of the shard or hash
	Cursor string
}

// RepairJob returns the job that repairs all namespaces of a kind, page by page.
func RepairJob(client rueidis.Client, kind *Kind, page RepairPage) millrace.Job {
	r := &repair{client: client, kind: kind, page: page, progress: map[string]progress{}}
	return millrace.Job{Name: kind.Package + ".repair", Slice: registry.NewVisitor(client, kind.Registry, r.visit).Slice}
}

// repair visits the shards of all namespaces of a kind.
type repair struct {
	client rueidis.Client
	kind   *Kind
	page   RepairPage

	mu       sync.Mutex
	progress map[string]progress // by the name of the namespace
}

// progress is how far a repair is in a namespace. It begins with a random shard.
type progress struct {
	first uint32
	done  int // shards
	Position
}

// visit repairs the next page of a namespace, and reports whether anything was wrong.
func (r *repair) visit(ctx context.Context, name string) (bool, error) {
	s := newSpace(r.client, r.kind, name, Config{AllowEvictable: true})
	r.mu.Lock()
	p, begun := r.progress[name]
	delete(r.progress, name)
	r.mu.Unlock()
	wrong := false
	if !begun {
		p.first = rand.Uint32()
		var err error
		if wrong, err = script.Prompt(ctx, func(ctx context.Context) (bool, error) {
			return r.client.Do(ctx, r.client.B().Persist().Key(r.kind.RecordKey(name)).Build()).AsBool()
		}); err != nil {
			return false, err
		}
	}
	shards, err := s.recount(ctx, false)
	if err != nil || p.done >= shards {
		return wrong, err
	}
	base := r.kind.ShardKey(name, (int(p.first)+p.done)%shards)
	found, next, err := r.page(ctx, s, base, shards, p.Position)
	switch {
	case errors.Is(err, errNoShard):
		p.Position, err = Position{}, nil
		p.done++
	case err == nil && next == (Position{}):
		p.Position = next
		p.done++
	case err == nil:
		p.Position = next
	case ctx.Err() == nil:
		return false, err
	case next != p.Position: // the slice has no more time: the next one continues
		p.Position, err = next, nil
	}
	if p.done < shards {
		r.mu.Lock()
		r.progress[name] = p
		r.mu.Unlock()
	}
	return wrong || found, err
}
