package expiry

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// MaxFields is how many fields [Hashes.SetMany] sets at most, and how many one call
// to Redis works on: more are split, and each part is of another moment.
const MaxFields = 1000

// MaxField is the longest name of a field in bytes. It may be any bytes.
const MaxField = 1024

// What [Hashes.TTL] and the like say instead of a time that is left.
const (
	NoTTL   time.Duration = -1 // the field has no deadline
	NoField time.Duration = -2 // there is no such field
)

// Hashes is a namespace of hashes whose fields expire one by one. It is safe for
// concurrent use.
type Hashes struct {
	cfg   HashesConfig
	space *namespace
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
// Errors: [millrace.ErrBadName] and [millrace.ErrBadArgument], before Redis was asked; [ErrBroken],
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
		return nil, millrace.ErrBadArgument.Errorf("Shards is %d, not from 1 to %d", cfg.Shards, MaxShards)
	}
	if cfg.Shards == 0 {
		cfg.Shards = ShardsDefault
	}
	h := &Hashes{cfg: cfg, space: newNamespace(client, kindHashes, name, cfg.Shards, cfg.Hooks)}
	h.space.entry.Enter(client, registry.Hashes, name, nil)
	return h, nil
}

// Name returns the namespace's name.
func (h *Hashes) Name() string { return h.space.name }

// CheckHash returns the [millrace.ErrBadName] with which every call refuses that name of a
// hash, and nil for one that can be had. Fields may be any bytes, at most [MaxField].
func CheckHash(name string) error { return checkName("hash", name) }

// check refuses what cannot be a hash, or fields of one.
func check(hash string, fields ...string) error {
	if err := CheckHash(hash); err != nil {
		return err
	}
	for _, field := range fields {
		if len(field) > MaxField {
			return millrace.ErrTooLarge.Errorf("a field's name has %d bytes, more than %d", len(field), MaxField)
		}
	}
	return nil
}

func (h *Hashes) enlist(ctx context.Context) {
	if h.cfg.Enlister != nil {
		h.cfg.Enlister.Enlist(ctx)
	}
}
