package expiry

import (
	"context"
	"iter"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
)

// NoTTL is the time left of a field without a deadline. [Hashes.Expire] with it removes deadlines.
const NoTTL = shards.NoTTL

const (
	// maxFields is how many fields SetMany sets at most, and how many one call to Redis
	// changes.
	maxFields = 1000

	// maxField is the longest name of a field in bytes.
	maxField = 1024
)

// Hashes is a namespace of hashes whose fields expire one by one. It is safe for
// concurrent use. Names of hashes have 1 to 512 bytes without braces and control
// characters; names of fields are any bytes, at most 1,024.
type Hashes struct {
	space *shards.Space
}

// Config configures [Hashes]. The zero value works.
type Config struct {
	// Shards is the number of shards of a new namespace, at most 256. Each lies in one
	// Redis Cluster slot and has an index of its own. A namespace that exists keeps its
	// number. Defaults to 16.
	Shards int

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict any key, for
	// fields whose early loss does no harm. Defaults to off: such a server is refused.
	AllowEvictable bool

	// Logger reports servers whose eviction policy is unknown, and changes of policies.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is notified when a field was found. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// Open opens a namespace of hashes. It creates nothing: the first Set does that. Unless
// AllowEvictable is set, it asks the servers for their eviction policy, for half a second at
// most, and later again in the background: as soon as one may evict any key, Set, SetMany
// and Incr are refused.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked;
// [millrace.ErrEvictable], [millrace.ErrBroken], [millrace.ErrVersion].
func Open(ctx context.Context, client rueidis.Client, namespace string, cfg Config) (*Hashes, error) {
	space, err := shards.New(client, &kind, namespace, shards.Config(cfg))
	if err != nil {
		return nil, err
	}
	if err := space.CheckPolicy(ctx); err != nil {
		return nil, err
	}
	if _, err := space.Count(ctx, false); err != nil {
		return nil, err
	}
	return &Hashes{space}, nil
}

// Name returns the namespace's name.
func (h *Hashes) Name() string { return h.space.Name }

// List yields the names of the registered namespaces of hashes, in no order. A namespace
// is registered by the processes that write to it. Where servers do not answer, List
// yields the names of the others and then an error: see [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return kind.List(ctx, client)
}

// Names yields the names of the namespace's hashes, in no order; a name may come twice, and
// a hash may have only expired fields. It ends with the first error.
func (h *Hashes) Names(ctx context.Context) iter.Seq2[string, error] { return h.space.Names(ctx) }

func check(hash string, fields ...string) error {
	if err := shards.CheckName("hash", hash); err != nil {
		return err
	}
	for _, field := range fields {
		if len(field) > maxField {
			return millrace.ErrTooLarge.Errorf("a field's name has %d bytes, more than %d", len(field), maxField)
		}
	}
	return nil
}
