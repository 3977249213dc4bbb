package expiry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/policy"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/reqid"
)

// namesPerCall is how many values one call to Redis reads or deletes at most.
const namesPerCall = 100

// Keys is a namespace of deterministic values: each is there until its deadline
// and gone from then on. It is safe for concurrent use.
type Keys struct {
	cfg     KeysConfig
	policy  *policy.Watch
	scripts *keyScripts
	space   *namespace
}

// KeysConfig is how deterministic values are used by this process. The zero value
// works.
type KeysConfig struct {
	// Shards is how many parts a new namespace has, at most [MaxShards]. Each lies
	// in one Redis Cluster slot and has an index of its own. One that exists keeps
	// the number it has. Defaults to [ShardsDefault].
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
// Errors: [ErrName] and [ErrConfig], before Redis was asked; [ErrEvictable].
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
		return nil, ErrConfig.Saying("Shards is %d, not from 1 to %d", cfg.Shards, MaxShards)
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
			Refusal: ErrEvictable, One: "a value", Many: "deterministic values", Allow: cfg.AllowEvictable, Logger: cfg.Logger,
		}),
		scripts: standardKeyScripts,
		space: &namespace{
			kind: kindKeys, name: name, want: cfg.Shards,
			run:   script.Runner{Client: client, Hooks: cfg.Hooks},
			claim: standardKeyScripts.claim,
		},
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
		return "", ErrConfig.Saying("a value cannot be stored only if there is none and only if there is one")
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
// Errors: [ErrName] and [ErrConfig], before Redis was asked; millrace.ErrFull,
// [ErrEvictable], [ErrBroken] and [ErrVersion], and then nothing was stored.
func (k *Keys) Set(ctx context.Context, key string, value []byte, ttl time.Duration, cfg SetKeyConfig) (bool, error) {
	condition, err := cfg.condition()
	if err != nil {
		return false, err
	}
	if err := checkKeyTTL(key, ttl); err != nil {
		return false, err
	}
	if err := k.policy.Check(ctx); err != nil {
		return false, err
	}
	base, _, err := k.space.shardOf(ctx, key, true)
	if err != nil {
		return false, err
	}
	args := []string{reqid.Next(ctx), key, ceilMillis(ttl), condition, string(value)}
	stored, err := k.ask(ctx, k.scripts.set, base, args...)
	if errors.Is(err, millrace.ErrFull) {
		if n, reapErr := k.reap(ctx, base); n == 0 || reapErr != nil {
			return false, err
		}
		stored, err = k.ask(ctx, k.scripts.set, base, args...)
	}
	return stored > 0, err
}

// Get returns a value and for how long it still lives. The ttl is that of the
// moment in which the server read it.
//
// Errors: [ErrNotFound]; [ErrName], before Redis was asked; [ErrBroken],
// [ErrVersion].
func (k *Keys) Get(ctx context.Context, key string) (value []byte, ttl time.Duration, err error) {
	if err := checkName("key", key); err != nil {
		return nil, 0, err
	}
	base, ok, err := k.space.shardOf(ctx, key, false)
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, 0, ErrNotFound
	}
	found, err := k.read(ctx, base, []string{key})
	if err != nil {
		return nil, 0, err
	}
	if len(found) == 0 {
		return nil, 0, ErrNotFound
	}
	k.enlist(ctx)
	return found[0].value, found[0].ttl, nil
}

// GetMany returns those of the values that are there, by their keys. Each shard is
// read by a call of its own for every 100 keys, at the same time, so values of
// different shards are not of one moment. With an error it returns what it got.
//
// Errors: those of Get, but for ErrNotFound.
func (k *Keys) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	var mu sync.Mutex
	err := k.perShard(ctx, keys, func(base string, _ int, names []string) error {
		found, err := k.read(ctx, base, names)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			values[f.name] = f.value
		}
		return err
	})
	if len(values) > 0 {
		k.enlist(ctx)
	}
	return values, err
}

// found is a value that is there.
type found struct {
	name  string
	value []byte
	ttl   time.Duration
}

// read reads values of one shard.
func (k *Keys) read(ctx context.Context, base string, names []string) ([]found, error) {
	reply, err := k.space.call(ctx, k.scripts.get, base, names...)
	if err != nil {
		return nil, err
	}
	parts, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	if len(parts) != 2*len(names) {
		return nil, fmt.Errorf("expiry.key_get answered %d parts for %d names", len(parts), len(names))
	}
	list := make([]found, 0, len(names))
	for i, name := range names {
		left, err := parts[2*i].AsInt64()
		if err != nil {
			return list, err
		}
		if left == 0 {
			continue
		}
		value, err := parts[2*i+1].AsBytes()
		if err != nil {
			return list, err
		}
		list = append(list, found{name: name, value: value, ttl: lifetime(left)})
	}
	return list, nil
}

func (k *Keys) enlist(ctx context.Context) {
	if k.cfg.Enlister != nil {
		k.cfg.Enlister.Enlist(ctx)
	}
}

// TTL returns for how long a value still lives. Errors are those of Get.
func (k *Keys) TTL(ctx context.Context, key string) (time.Duration, error) {
	if err := checkName("key", key); err != nil {
		return 0, err
	}
	base, ok, err := k.space.shardOf(ctx, key, false)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, ErrNotFound
	}
	left, err := k.ask(ctx, k.scripts.ttl, base, key)
	if err == nil && left == 0 {
		err = ErrNotFound
	}
	return lifetime(int64(left)), err
}

// Expire gives a value another deadline, in ttl from now, nearer or farther than
// the one it has, and reports whether there was one. It works when the server is
// full, and is not refused where Set is for what the server may evict.
//
// Errors: [ErrName] and [ErrConfig], before Redis was asked; [ErrBroken],
// [ErrVersion].
func (k *Keys) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := checkKeyTTL(key, ttl); err != nil {
		return false, err
	}
	base, ok, err := k.space.shardOf(ctx, key, false)
	if err != nil || !ok {
		return false, err
	}
	n, err := k.ask(ctx, k.scripts.expire, base, reqid.Next(ctx), key, ceilMillis(ttl))
	return n > 0, err
}

// Delete removes values and returns how many of them were there. It makes a call
// for every 100 keys of a shard, each of which is applied whole. With an error it
// returns how many are known to be deleted.
//
// Errors: [ErrName], before Redis was asked; [ErrBroken], [ErrVersion].
func (k *Keys) Delete(ctx context.Context, keys ...string) (int, error) {
	// Shards are asked at the same time, so that the ids of their calls are drawn
	// before. Each remembers answers for itself: all may be asked under the same.
	ids := make([]string, (len(keys)+namesPerCall-1)/namesPerCall)
	for i := range ids {
		ids[i] = reqid.Next(ctx)
	}
	var mu sync.Mutex
	deleted := 0
	err := k.perShard(ctx, keys, func(base string, part int, names []string) error {
		n, err := k.ask(ctx, k.scripts.delete, base, append([]string{ids[part]}, names...)...)
		mu.Lock()
		defer mu.Unlock()
		deleted += n
		return err
	})
	return deleted, err
}

// perShard calls do for the keys of each shard, in parts of at most 100 that are
// numbered from 0 on, for all shards at the same time. It checks all keys first,
// and calls nothing in a namespace that does not exist.
func (k *Keys) perShard(ctx context.Context, keys []string, do func(base string, part int, names []string) error) error {
	for _, key := range keys {
		if err := checkName("key", key); err != nil {
			return err
		}
	}
	shards := make(map[string][]string)
	for _, key := range keys {
		base, ok, err := k.space.shardOf(ctx, key, false)
		if err != nil || !ok {
			return err
		}
		shards[base] = append(shards[base], key)
	}
	return atOnce(slices.Collect(maps.Keys(shards)), func(base string) error {
		part := 0
		for names := range slices.Chunk(shards[base], namesPerCall) {
			if err := do(base, part, names); err != nil {
				return err
			}
			part++
		}
		return nil
	})
}

// atOnce calls do for all shards at the same time and returns their errors.
func atOnce(bases []string, do func(base string) error) error {
	failed := make([]error, len(bases))
	var running sync.WaitGroup
	for i, base := range bases {
		running.Go(func() { failed[i] = do(base) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// ask runs a script that answers with a number.
func (k *Keys) ask(ctx context.Context, s *script.Script, base string, args ...string) (int, error) {
	reply, err := k.space.call(ctx, s, base, args...)
	if err != nil {
		return 0, err
	}
	n, err := reply.AsInt64()
	return int(n), err
}

func checkKeyTTL(key string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return ErrConfig.Saying("a value lives for a millisecond at least, not %s", ttl)
	}
	return checkName("key", key)
}

// ceilMillis rounds up, so that nothing goes before its time.
func ceilMillis(d time.Duration) string {
	return strconv.FormatInt(int64((d-1)/time.Millisecond)+1, 10)
}

// lifetime is a time that a script answers, or the longest that there is.
func lifetime(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
