package expiry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

// repair goes round the shards of all namespaces of a kind, a page of each at a time.
type repair struct {
	client rueidis.Client
	kind   kind
	page   repairPage

	mu     sync.Mutex
	places map[string]place // by the name of the namespace, while it is gone through
}

// repairPage puts a page of a shard to rights. It reports whether anything was wrong, and
// where to go on, which is the zero value at the end.
type repairPage func(ctx context.Context, n *namespace, base string, shards int, at spot) (wrong bool, next spot, err error)

// spot is how far a repair has come in a shard.
type spot struct {
	page   string // cursor of the page of names that is gone through, where there is one
	hash   string // of those
	part   string // of those that a shard or a hash has
	cursor string
}

// place is how far a repair has come in a namespace. It begins with any shard.
type place struct {
	first uint32
	done  int // shards
	spot
}

// newRepair returns the slice of a job.
func newRepair(client rueidis.Client, k kind, page repairPage) func(context.Context) (millrace.Progress, error) {
	r := &repair{client: client, kind: k, page: page, places: map[string]place{}}
	return registry.NewVisitor(client, k.registered(), r.visit).Slice
}

// visit does the next page of a namespace, and reports whether anything was wrong.
func (r *repair) visit(ctx context.Context, name string) (bool, error) {
	n := newNamespace(r.client, r.kind, name, 0, nil)
	r.mu.Lock()
	p, begun := r.places[name]
	delete(r.places, name)
	r.mu.Unlock()
	wrong := false
	if !begun {
		p.first = rand.Uint32()
		var err error
		if wrong, err = script.Prompt(ctx, func(ctx context.Context) (bool, error) {
			return r.client.Do(ctx, r.client.B().Persist().Key(r.kind.recordKey(name)).Build()).AsBool()
		}); err != nil {
			return false, err
		}
	}
	shards, err := n.recount(ctx, false)
	if err != nil || p.done >= shards {
		return wrong, err
	}
	base := r.kind.shardKey(name, (int(p.first)+p.done)%shards)
	found, next, err := r.page(ctx, n, base, shards, p.spot)
	if err != nil && !errors.Is(err, errNoShard) {
		return false, err
	}
	if p.spot = next; next == (spot{}) {
		p.done++
	}
	if p.done < shards {
		r.mu.Lock()
		r.places[name] = p
		r.mu.Unlock()
	}
	return wrong || found, nil
}
