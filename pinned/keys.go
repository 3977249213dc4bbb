package pinned

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
)

// Keys is a namespace of values, each of which exists until its deadline and not after it.
// It is safe for concurrent use. Keys have 1 to 512 bytes without braces and control
// characters.
type Keys struct {
	space *shards.Space
}

// Config configures [Keys]. The zero value works.
type Config struct {
	// Shards is the number of shards of a new namespace, at most 256. Each lies in one
	// Redis Cluster slot, and its values in one hash, which a Cluster moves to another
	// node as a whole: store no more than about 100 MB in each. A namespace that exists
	// keeps its number. Defaults to 16.
	Shards int

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict any key, for
	// values whose early loss does no harm. Defaults to off: such a server is refused.
	AllowEvictable bool

	// Logger reports servers whose eviction policy is unknown, and changes of policies.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is notified when a value was found. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// Open opens a namespace of values. It creates nothing: the first Set does that. Unless
// AllowEvictable is set, it asks the servers for their eviction policy, for half a second at
// most, and later again in the background: as soon as one may evict any key, Set is
// refused.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked;
// [millrace.ErrEvictable].
func Open(ctx context.Context, client rueidis.Client, namespace string, cfg Config) (*Keys, error) {
	space, err := shards.New(client, &kind, namespace, shards.Config(cfg))
	if err != nil {
		return nil, err
	}
	if err := space.CheckPolicy(ctx); err != nil {
		return nil, err
	}
	return &Keys{space}, nil
}

// Name returns the namespace's name.
func (k *Keys) Name() string { return k.space.Name }

// List yields the names of the registered namespaces of values, in no order. A namespace
// is registered by the processes that write to it. Where servers do not answer, List
// yields the names of the others and then an error: see [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return kind.List(ctx, client)
}

// Names yields the names of the values, in no order; a name may come twice, and its value
// may have expired. It ends with the first error.
func (k *Keys) Names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range k.space.Names(ctx) {
			if !strings.HasPrefix(name, claimPrefix) && !yield(name, err) {
				return
			}
		}
	}
}

// SetConfig is the condition of [Keys.Set]: at most one. The zero value is none.
type SetConfig struct {
	IfNone  bool   // store only if there is no value
	IfExist bool   // store only if there is one
	Claim   string // of [Keys.Claim]: store only if the key was not set, removed or claimed since
}

func (c SetConfig) word() (string, error) {
	switch c {
	case SetConfig{}:
		return "", nil
	case SetConfig{IfNone: true}:
		return "none", nil
	case SetConfig{IfExist: true}:
		return "exist", nil
	case SetConfig{Claim: c.Claim}:
		return "claim", nil
	}
	return "", millrace.ErrBadArgument.Errorf("IfNone, IfExist and Claim exclude each other")
}

// Set stores a value for ttl, at least a millisecond, rounded up to milliseconds. It
// reports whether it stored the value: without a condition, it always does.
//
// On a full server it first removes expired values in the value's shard. A value that
// still does not fit is refused, and nothing is changed: an earlier value stays until its
// own deadline.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and [millrace.ErrTooLarge] (for
// more than 8 MiB), before Redis was asked; [millrace.ErrFull], [millrace.ErrEvictable],
// [millrace.ErrBroken] and [millrace.ErrVersion], and then nothing was stored.
func (k *Keys) Set(ctx context.Context, key string, value []byte, ttl time.Duration, cfg SetConfig) (bool, error) {
	condition, err := cfg.word()
	if err := cmp.Or(err, check(key, ttl), shards.CheckSize(len(value))); err != nil {
		return false, err
	}
	args := []string{key, shards.CeilMillis(ttl), condition, string(value)}
	if cfg.Claim != "" {
		args = append(args, cfg.Claim)
	}
	reply, err := k.space.Store(ctx, condition == "" || cfg.IfNone, k.reap, "set", key, args...)
	if err != nil || reply == nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// Expire gives a value another deadline, in ttl from now, earlier or later than its own,
// and reports whether there was a value. It works when the server is full, or may evict any
// key.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked;
// [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Keys) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := check(key, ttl); err != nil {
		return false, err
	}
	reply, err := k.space.Write(ctx, "expire", key, key, shards.CeilMillis(ttl))
	if err != nil || reply == nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// Remove removes values and claims, and returns how many of the values existed. It makes a
// call for every 100 keys of a shard, each of which is applied whole. With an error it returns
// how many are known to be removed.
//
// Errors: [millrace.ErrBadName], before Redis was asked; [millrace.ErrBroken],
// [millrace.ErrVersion].
func (k *Keys) Remove(ctx context.Context, keys ...string) (int, error) {
	var removed atomic.Int64
	err := k.space.AtMany(ctx, keys, true, func(p shards.Part) error {
		reply, err := k.space.Ask(ctx, p.Request, "delete", p.Base, p.Shards, p.Keys...)
		if err != nil {
			return err
		}
		removed.Add(reply.Int())
		return reply.Err()
	})
	return int(removed.Load()), err
}

// Delete removes all values, however many there are, and everything that belongs to the
// namespace. Stop writing first: a concurrent write may or may not remain. The next Set
// creates the namespace again. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Keys) Delete(ctx context.Context) error {
	return k.space.Delete(ctx, func(base string, shards int) error {
		_, err := k.space.Ask(ctx, nil, "drop", base, shards)
		return err
	})
}

func check(key string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return millrace.ErrBadArgument.Errorf("the TTL is %s, less than a millisecond", ttl)
	}
	return shards.CheckName("key", key)
}
