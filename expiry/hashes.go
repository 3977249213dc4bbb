package expiry

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/registry"
)

// MaxFields is how many fields [Hashes.SetMany] sets at most, and how many one call
// to Redis works on: more are split, and each part is of another moment.
const MaxFields = 1000

// What [Hashes.TTL] and the like say instead of a time that is left.
const (
	NoTTL   time.Duration = -1 // the field has no deadline
	NoField time.Duration = -2 // there is no such field
)

// Hashes is a namespace of hashes whose fields expire one by one. It is safe for
// concurrent use.
type Hashes struct {
	cfg     HashesConfig
	space   *namespace
	scripts *hashScripts
}

// HashesConfig is how hashes are used by this process. The zero value works.
type HashesConfig struct {
	// Shards is how many parts a new namespace has, at most [MaxShards]. Each lies
	// in one Redis Cluster slot and has an index of its own. One that exists keeps
	// the number it has. Defaults to [ShardsDefault].
	Shards int

	// Enlister is told when a field was found. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls. Defaults to none.
	Hooks []millrace.Hook
}

// OpenHashes opens a namespace of hashes. It asks Redis whether there is one, and
// creates nothing: that the first Set does.
//
// Errors: [ErrName] and [ErrConfig], before Redis was asked; [ErrBroken],
// [ErrVersion].
func OpenHashes(ctx context.Context, client rueidis.Client, namespace string, cfg HashesConfig) (*Hashes, error) {
	h, err := newHashes(client, namespace, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := h.space.count(ctx, false); err != nil {
		return nil, err
	}
	return h, nil
}

// newHashes is OpenHashes without the question.
func newHashes(client rueidis.Client, name string, cfg HashesConfig) (*Hashes, error) {
	if err := CheckNamespace(name); err != nil {
		return nil, err
	}
	if cfg.Shards < 0 || cfg.Shards > MaxShards {
		return nil, ErrConfig.Saying("Shards is %d, not from 1 to %d", cfg.Shards, MaxShards)
	}
	if cfg.Shards == 0 {
		cfg.Shards = ShardsDefault
	}
	h := &Hashes{
		cfg:     cfg,
		scripts: standardHashScripts,
		space: &namespace{
			kind: kindHashes, name: name, want: cfg.Shards,
			run:   script.Runner{Client: client, Hooks: cfg.Hooks},
			claim: standardHashScripts.claim,
		},
	}
	h.space.entry.Enter(client, registry.Hashes, name, nil)
	return h, nil
}

// Name returns the namespace's name.
func (h *Hashes) Name() string { return h.space.name }

// CheckHash returns the [ErrName] with which every call refuses that name of a
// hash, and nil for one that can be had. Fields may be any bytes.
func CheckHash(name string) error { return checkName("hash", name) }

// ask runs a script on a hash. It reports false, and asks nothing, for a namespace
// that does not exist and is not to be created.
func (h *Hashes) ask(ctx context.Context, s *script.Script, create bool, hash string, args ...string) (rueidis.RedisMessage, bool, error) {
	none := rueidis.RedisMessage{}
	if err := CheckHash(hash); err != nil {
		return none, false, err
	}
	base, ok, err := h.space.shardOf(ctx, hash, create)
	if err != nil || !ok {
		return none, false, err
	}
	reply, err := h.space.call(ctx, s, base, append([]string{hash}, args...)...)
	return reply, err == nil, err
}

// number is ask for a script that answers with a number, which is 0 for a
// namespace that does not exist.
func (h *Hashes) number(ctx context.Context, s *script.Script, create bool, hash string, args ...string) (int, error) {
	reply, ok, err := h.ask(ctx, s, create, hash, args...)
	if err != nil || !ok {
		return 0, err
	}
	n, err := reply.AsInt64()
	return int(n), err
}

// left reads what scripts say of the time that is left.
func left(m rueidis.RedisMessage) (time.Duration, error) {
	ms, err := m.AsInt64()
	if ms < 0 {
		return time.Duration(ms), err // NoTTL or NoField
	}
	return time.Duration(ms) * time.Millisecond, err
}

func (h *Hashes) enlist(ctx context.Context) {
	if h.cfg.Enlister != nil {
		h.cfg.Enlister.Enlist(ctx)
	}
}
