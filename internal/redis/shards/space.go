package shards

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/policy"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
)

const (
	// Default is the number of shards of a new namespace.
	Default = 16

	// maxShards is the largest number of shards.
	maxShards = 256

	// maxName is the longest name in bytes.
	maxName = 512

	// MaxValue limits the bytes of values that one call stores.
	MaxValue = 8 << 20
)

// Kind has the common properties of the namespaces of one package.
type Kind struct {
	Package  string // its name, in front of the names of calls and jobs
	Shard    string // begins the keys of a shard: "mr:hash:{"
	Record   string // begins the key of a namespace's record, differs from Shard: "mr:hashes:{"
	Version  string // of the wire format, see check.lua
	Registry registry.Kind
	Library  *script.Library
	Errors   map[string]*millrace.Error // of its own scripts
	One      string                     // an element of a shard, for errors: "a field"
	Many     string
}

// RecordKey is the key of a namespace's record: a hash with the version and the number of
// shards.
func (k *Kind) RecordKey(name string) string { return k.Record + name + "}" }

// ShardKey is the base key of a shard: a hash with the version and the counters. All keys
// of a shard begin with it and lie in one slot of a Redis Cluster.
func (k *Kind) ShardKey(name string, shard int) string {
	return k.Shard + name + "/" + strconv.Itoa(shard) + "}"
}

// List yields the names of all registered namespaces of the kind.
func (k *Kind) List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.List(ctx, client, k.Registry, func(name string) error { return CheckName("namespace", name) })
}

// Config is the configuration of a Space.
type Config struct {
	Shards         int // of a new namespace; 0 is Default
	AllowEvictable bool
	Logger         *slog.Logger
	Enlister       millrace.Enlister
	Hooks          []millrace.Hook
}

// Space is one namespace. The first write stores its number of shards in a record, and
// each shard repeats the number: a client that knows the number from before the namespace
// was lost is refused, and reads the record again.
type Space struct {
	Name   string
	Kind   *Kind
	Run    script.Runner
	cfg    Config
	policy *policy.Watch
	entry  registry.Entry

	readers   readers
	PageBytes int // about how much one read returns at most

	Idle      time.Duration             // see DefaultIdle; 0 in tests that do not wait
	idleUntil atomic.Pointer[time.Time] // nothing is due before

	turn  atomic.Uint32 // counts slices that reap
	Known atomic.Int64  // number of shards, as last read; 0 if unknown
}

var (
	// errNoShard means that nothing was stored in a shard so far.
	errNoShard = &millrace.Error{Code: "no_shard"}

	// errShards means that the caller knows another number of shards.
	errShards = &millrace.Error{Code: "other_shards"}
)

// New returns a namespace. It does no I/O.
func New(client rueidis.Client, kind *Kind, name string, cfg Config) (*Space, error) {
	if err := CheckName("namespace", name); err != nil {
		return nil, err
	}
	switch {
	case cfg.Shards < 0 || cfg.Shards > maxShards:
		return nil, millrace.ErrBadArgument.Errorf("Shards is %d, not from 1 to %d", cfg.Shards, maxShards)
	case cfg.Shards == 0:
		cfg.Shards = Default
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	s := newSpace(client, kind, name, cfg)
	s.entry.Enter(client, kind.Registry, name, cfg.Logger)
	return s, nil
}

func newSpace(client rueidis.Client, kind *Kind, name string, cfg Config) *Space {
	errs := map[string]*millrace.Error{"NOSHARD": errNoShard, "SHARDS": errShards}
	maps.Copy(errs, kind.Errors)
	s := &Space{
		Name: name, Kind: kind, cfg: cfg, readers: readers{client: client}, PageBytes: script.MaxBytes, Idle: DefaultIdle,
		policy: policy.New(client, policy.Config{
			One: kind.One, Many: kind.Many, Allow: cfg.AllowEvictable, Logger: cfg.Logger,
		}),
		Run: script.Runner{Client: client, Scripts: kind.Library, Hooks: cfg.Hooks, Errors: errs},
	}
	s.turn.Store(rand.Uint32())
	return s
}

// CheckPolicy returns ErrEvictable if a server may evict any key, as far as is known.
// With AllowEvictable it asks no server.
func (s *Space) CheckPolicy(ctx context.Context) error {
	if s.cfg.AllowEvictable {
		return nil
	}
	return s.policy.Check(ctx)
}

// Enlist reports a hit to the enlister.
func (s *Space) Enlist(ctx context.Context) {
	if s.cfg.Enlister != nil {
		s.cfg.Enlister.Enlist(ctx)
	}
}

// Count returns the number of shards, 0 for a namespace that does not exist. With create
// it creates the namespace.
func (s *Space) Count(ctx context.Context, create bool) (int, error) {
	if known := s.Known.Load(); known > 0 {
		return int(known), nil
	}
	return s.recount(ctx, create)
}

// recount is Count, and always reads the record.
func (s *Space) recount(ctx context.Context, create bool) (int, error) {
	want := 0
	if create {
		want = s.cfg.Shards
	}
	reply, err := s.Run.Run(ctx, "claim", s.Kind.RecordKey(s.Name), strconv.Itoa(want))
	if err != nil {
		return 0, err
	}
	shards := reply.Int()
	if err := reply.Err(); err != nil {
		return 0, err
	}
	s.Known.Store(shards)
	return int(shards), nil
}

// Base returns the base key of the shard of a hash or key: the CRC-32 (IEEE) of its name,
// modulo the number of shards.
func (s *Space) Base(member string, shards int) string {
	return s.Kind.ShardKey(s.Name, int(crc32.ChecksumIEEE([]byte(member))%uint32(shards)))
}

// Write runs a script once on the shard of a member. It creates no shard: the reply is nil
// if there is nothing to change.
func (s *Space) Write(ctx context.Context, name, member string, args ...string) (*script.Reply, error) {
	request := s.Run.Request(ctx)
	defer request.Done()
	return s.Call(ctx, request, false, name, member, args...)
}

// Store runs a script that needs memory; once, if it has a lane. With create it creates the
// shard. If the server is full, it reaps the shard, and then tries once more if that removed
// something.
func (s *Space) Store(ctx context.Context, create bool, reap Reap, name, member string, args ...string) (*script.Reply, error) {
	if err := s.policy.Check(ctx); err != nil {
		return nil, err
	}
	var request *reqid.Request
	if s.Kind.Library.Script(name).Lane() {
		request = s.Run.Request(ctx)
		defer request.Done()
	}
	reply, err := s.Call(ctx, request, create, name, member, args...)
	if !errors.Is(err, millrace.ErrFull) {
		return reply, err
	}
	shards, unknown := s.Count(ctx, false)
	if unknown != nil || shards == 0 {
		return nil, err
	}
	if progress, failed := reap(ctx, s.Base(member, shards), shards, true); failed != nil || progress == millrace.Idle {
		return nil, err
	}
	return s.Call(ctx, request, create, name, member, args...)
}

// Call runs a script on the shard of a member, with a request or nil. The reply is nil if
// there is no shard, or no key, to run it on. With create it creates the shard.
func (s *Space) Call(ctx context.Context, request *reqid.Request, create bool, name, member string, args ...string) (reply *script.Reply, err error) {
	err = s.At(ctx, create, member, func(base string, shards int) error {
		var err error
		reply, err = s.Ask(ctx, request, name, base, shards, args...)
		return err
	})
	if err != nil || reply != nil && reply.None() {
		return nil, err
	}
	return reply, nil
}

// maxRecounts limits how often one call reads the record again.
const maxRecounts = 3

// At calls do for the shard of a member. If the shard does not exist or belongs to another
// number of shards, At reads the record again and repeats the call. Without create it
// does nothing for a shard that does not exist.
func (s *Space) At(ctx context.Context, create bool, member string, do func(base string, shards int) error) error {
	shards, err := s.Count(ctx, create)
	if err == nil && create {
		s.entry.Touch()
	}
	for recounts := 0; err == nil && shards > 0; recounts++ {
		base := s.Base(member, shards)
		err := do(base, shards)
		missing, other := errors.Is(err, errNoShard), errors.Is(err, errShards)
		switch {
		case !missing && !other:
			return err
		case recounts == maxRecounts:
			return millrace.ErrBroken.Wrap(err)
		}
		known := shards
		if shards, err = s.recount(ctx, create); err != nil {
			return err
		}
		switch {
		case shards != known: // the known number is from before the namespace was lost
		case other:
			return millrace.ErrBroken.Errorf("the shard %s is not one of %d", base, shards)
		case !create:
			return nil
		default:
			if _, err := s.Ask(ctx, nil, "begin", base, shards); err != nil && !errors.Is(err, errShards) {
				return err
			}
		}
	}
	return err
}

// Ask runs a script on one shard, with a request or nil.
func (s *Space) Ask(ctx context.Context, request *reqid.Request, name, base string, shards int, args ...string) (*script.Reply, error) {
	args = append([]string{strconv.Itoa(shards)}, args...)
	if request == nil {
		return s.Run.Run(ctx, name, base, args...)
	}
	return s.Run.RunRequest(ctx, request, name, base, args...)
}

// CheckName returns ErrBadName for an invalid name of a namespace, a hash or a key.
func CheckName(what, name string) error {
	return names.Check(millrace.ErrBadName, "name of a "+what, name, maxName)
}

// CheckSize returns ErrTooLarge if values have too many bytes for one call.
func CheckSize(size int) error {
	if size > MaxValue {
		return millrace.ErrTooLarge.Errorf("%d bytes of values are more than %d", size, MaxValue)
	}
	return nil
}

// CeilMillis returns a duration in milliseconds, rounded up, so that nothing expires before
// its time.
func CeilMillis(d time.Duration) string {
	return strconv.FormatInt(int64((d-1)/time.Millisecond)+1, 10)
}
