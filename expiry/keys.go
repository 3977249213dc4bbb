package expiry

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/policy"
	"github.com/millrace/millrace/internal/registry"
)

// MaxValue is the longest value in bytes, and how many bytes of values
// [Hashes.SetMany] sets at most.
const MaxValue = 8 << 20

// Keys is a namespace of deterministic values: each is there until its deadline
// and gone from then on. It is safe for concurrent use.
type Keys struct {
	cfg    KeysConfig
	policy *policy.Watch
	space  *namespace
}

// KeysConfig is how deterministic values are used by this process. The zero value
// works.
type KeysConfig struct {
	// Shards is how many parts a new namespace has, at most [MaxShards]. Each lies
	// in one Redis Cluster slot, and its values in one hash, which a Cluster moves to
	// another node as a whole: have no more than about 100 MB in each. One that exists
	// keeps the number it has. Defaults to [ShardsDefault].
	Shards int

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict any key,
	// for values that may as well be lost. Defaults to off: such a server is
	// refused.
	AllowEvictable bool

	// Logger is told when a server does not say what it may evict, and when that
	// changes while the program runs. Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is told when a value was found. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// OpenKeys opens a namespace of deterministic values. It creates nothing: that the
// first Set does. Unless AllowEvictable is set, it asks the servers what they may
// evict, for half a second at most. One that has not answered by then is asked again
// in the background; as soon as it says that it may evict any key, Set is refused.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked; [millrace.ErrEvictable].
func OpenKeys(ctx context.Context, client rueidis.Client, namespace string, cfg KeysConfig) (*Keys, error) {
	k, err := newKeys(client, namespace, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.AllowEvictable {
		return k, nil // nothing depends on the answer
	}
	if err := k.policy.Check(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// newKeys is OpenKeys without a look at the servers.
func newKeys(client rueidis.Client, name string, cfg KeysConfig) (*Keys, error) {
	if err := CheckNamespace(name); err != nil {
		return nil, err
	}
	if cfg.Shards < 0 || cfg.Shards > MaxShards {
		return nil, millrace.ErrBadArgument.Errorf("Shards is %d, not from 1 to %d", cfg.Shards, MaxShards)
	}
	if cfg.Shards == 0 {
		cfg.Shards = ShardsDefault
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	k := &Keys{
		cfg: cfg,
		policy: policy.New(client, policy.Config{
			One: "a value", Many: "deterministic values", Allow: cfg.AllowEvictable, Logger: cfg.Logger,
		}),
		space: newNamespace(client, kindKeys, name, cfg.Shards, cfg.Hooks),
	}
	k.space.entry.Enter(client, registry.Keys, name, cfg.Logger)
	return k, nil
}

// SetKeyConfig is a condition of [Keys.Set]. The zero value is none.
type SetKeyConfig struct {
	IfNone  bool // store only if there is no value
	IfExist bool // store only if there is one
}

// condition is the word for it that the script takes.
func (c SetKeyConfig) condition() (string, error) {
	switch {
	case c.IfNone && c.IfExist:
		return "", millrace.ErrBadArgument.Errorf("a value cannot be stored only if there is none and only if there is one")
	case c.IfNone:
		return "none", nil
	case c.IfExist:
		return "exist", nil
	}
	return "", nil
}

// Name returns the namespace's name.
func (k *Keys) Name() string { return k.space.name }

// Set stores a value that stays for ttl, at least a millisecond, and is gone then.
// It reports whether it did: without a condition, it always does. A ttl is
// rounded up to whole milliseconds.
//
// On a server that is full it first removes what is overdue in the value's shard.
// A value that still does not fit is refused, and nothing was changed: an earlier
// value stays until its own deadline.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrFull, [millrace.ErrEvictable], millrace.ErrBroken and millrace.ErrVersion, and then
// nothing was stored.
func (k *Keys) Set(ctx context.Context, key string, value []byte, ttl time.Duration, cfg SetKeyConfig) (bool, error) {
	condition, err := cfg.condition()
	if err != nil {
		return false, err
	}
	if err := cmp.Or(checkKeyTTL(key, ttl), checkSize(len(value))); err != nil {
		return false, err
	}
	if err := k.policy.Check(ctx); err != nil {
		return false, err
	}
	request := k.space.run.Request(ctx)
	defer request.Done()
	args := []string{key, ceilMillis(ttl), condition, string(value)}
	reply, err := k.space.call(ctx, request, !cfg.IfExist, "key_set", key, args)
	if errors.Is(err, millrace.ErrFull) {
		shards, unknown := k.space.count(ctx, false)
		if unknown != nil || shards == 0 {
			return false, err
		}
		if looked, _, failed := k.reap(ctx, k.space.base(key, shards), shards); failed != nil || looked == 0 {
			return false, err
		}
		reply, err = k.space.call(ctx, request, !cfg.IfExist, "key_set", key, args)
	}
	if err != nil || reply == nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

func (k *Keys) enlist(ctx context.Context) {
	if k.cfg.Enlister != nil {
		k.cfg.Enlister.Enlist(ctx)
	}
}

// Expire gives a value another deadline, in ttl from now, nearer or farther than
// the one it has, and reports whether there was one. It works when the server is
// full, and is not refused where Set is for what the server may evict.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked; millrace.ErrBroken,
// millrace.ErrVersion.
func (k *Keys) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := checkKeyTTL(key, ttl); err != nil {
		return false, err
	}
	reply, err := k.space.write(ctx, false, "key_expire", key, key, ceilMillis(ttl))
	if err != nil || reply == nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

// Delete removes values and returns how many of them were there. It makes a call
// for every 100 keys of a shard, each of which is applied whole. With an error it
// returns how many are known to be deleted.
//
// Errors: [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
func (k *Keys) Delete(ctx context.Context, keys ...string) (int, error) {
	var mu sync.Mutex
	deleted := 0
	err := k.inParts(ctx, keys, true, func(p part) error {
		reply, err := k.space.ask(ctx, p.request, "key_delete", p.base, p.shards, p.keys...)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		deleted += int(reply.Int())
		return reply.Err()
	})
	return deleted, err
}

// DeleteNamespace removes all values, however many there are, and all that belongs to
// the namespace. The next Set begins it anew. Nobody should write meanwhile: whether what
// they write stays is not known. Errors: millrace.ErrBroken, millrace.ErrVersion.
func (k *Keys) DeleteNamespace(ctx context.Context) error {
	if _, err := k.space.each(ctx, func(base string, shards int) error {
		_, err := k.space.ask(ctx, nil, "key_drop", base, shards)
		return err
	}); err != nil {
		return err
	}
	return k.space.forget(ctx)
}

// Names goes through the names of the values, in no order; one may come twice, and so
// may one whose time is over. It ends with the first error.
func (k *Keys) Names(ctx context.Context) iter.Seq2[string, error] { return k.space.names(ctx) }

// checkSize refuses what is too much for one call.
func checkSize(size int) error {
	if size > MaxValue {
		return millrace.ErrTooLarge.Errorf("%d bytes of values are more than %d", size, MaxValue)
	}
	return nil
}

func checkKeyTTL(key string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return millrace.ErrBadArgument.Errorf("a value lives for a millisecond at least, not %s", ttl)
	}
	return checkName("key", key)
}

// ceilMillis rounds up, so that nothing goes before its time.
func ceilMillis(d time.Duration) string {
	return strconv.FormatInt(int64((d-1)/time.Millisecond)+1, 10)
}
