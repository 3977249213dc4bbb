package expiry

import (
	"context"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

const (
	// ShardsDefault is how many shards a new namespace has.
	ShardsDefault = 16

	// MaxShards is how many it has at most.
	MaxShards = 256

	// maxName is the longest name in bytes.
	maxName = 512
)

// kind is what a namespace holds: the first part of its keys.
type kind string

const (
	kindHashes kind = "mr:hash:{"
	kindKeys   kind = "mr:key:{"
)

// recordKey is the hash that is a namespace: version and shards. Its kind is a
// word of its own, so that no namespace's record is another one's shard.
func (k kind) recordKey(name string) string {
	if k == kindKeys {
		return "mr:keys:{" + name + "}"
	}
	return "mr:hashes:{" + name + "}"
}

// registered is the kind as the registry has it.
func (k kind) registered() registry.Kind {
	if k == kindKeys {
		return registry.Keys
	}
	return registry.Hashes
}

// list returns the names of all namespaces of the kind, sorted; with an error those that
// are known all the same.
func (k kind) list(ctx context.Context, client rueidis.Client) ([]string, error) {
	var names []string
	var failed error
	for name, err := range registry.List(ctx, client, k.registered()) {
		switch {
		case err != nil:
			failed = err
		case CheckNamespace(name) == nil:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, failed
}

// shardKey is the base key of a shard, from which its other keys are made: a hash
// with its version and its counters. All keys of a shard lie in one Redis Cluster
// slot.
func (k kind) shardKey(name string, shard int) string {
	return string(k) + name + "/" + strconv.Itoa(shard) + "}"
}

// script is the kind's own script of those that both kinds have.
func (k kind) script(name string) string {
	if k == kindKeys {
		return "key_" + name
	}
	return "hash_" + name
}

// wireVersion is that of what is stored; see check.lua.
func (k kind) wireVersion() string {
	if k == kindKeys {
		return "2"
	}
	return "3"
}

// namespace is a name and its fixed number of shards. The first write stores how
// many there are; from then on that holds for everybody, and each shard says it again,
// so that nobody goes by a number from before the namespace was lost.
type namespace struct {
	kind  kind
	name  string
	want  int // shards, if the namespace is new
	run   script.Runner
	entry registry.Entry

	readers   readers
	pageBytes int // about how much one read brings at most

	turn  atomic.Uint32 // of the shards, see eachDue
	known atomic.Int64  // how many shards there are, as last read; 0 while it is not known
}

func newNamespace(client rueidis.Client, k kind, name string, want int, hooks []millrace.Hook) *namespace {
	made := &namespace{
		kind: k, name: name, want: want, readers: readers{client: client}, pageBytes: script.MaxBytes,
		run: script.Runner{Client: client, Scripts: library, Hooks: hooks, Errors: scriptErrors},
	}
	made.turn.Store(rand.Uint32())
	return made
}

// count returns how many shards there are, 0 for a namespace that does not exist. It
// is created if create is set.
func (n *namespace) count(ctx context.Context, create bool) (int, error) {
	if known := n.known.Load(); known > 0 {
		return int(known), nil
	}
	return n.recount(ctx, create)
}

// recount is count by what the record says now.
func (n *namespace) recount(ctx context.Context, create bool) (int, error) {
	want := 0
	if create {
		want = n.want
	}
	reply, err := n.run.Run(ctx, "claim", n.kind.recordKey(n.name), strconv.Itoa(want))
	if err != nil {
		return 0, err
	}
	shards := reply.Int()
	if err := reply.Err(); err != nil {
		return 0, err
	}
	n.known.Store(shards)
	return int(shards), nil
}

// base returns the base key of the shard that a hash or key lies in: the CRC-32 (IEEE)
// of its name, modulo the number of shards.
func (n *namespace) base(member string, shards int) string {
	return n.kind.shardKey(n.name, int(crc32.ChecksumIEEE([]byte(member))%uint32(shards)))
}

// read runs a script that takes no lane on the shard of a member. The reply is nil if
// there is nothing to run it on.
func (n *namespace) read(ctx context.Context, name, member string, args ...string) (*script.Reply, error) {
	return n.call(ctx, nil, false, name, member, args)
}

// write runs a script that takes effect once on the shard of a member, which it creates
// if create is set. Otherwise the reply is nil if there is nothing to run it on.
func (n *namespace) write(ctx context.Context, create bool, name, member string, args ...string) (*script.Reply, error) {
	request := n.run.Request(ctx)
	defer request.Done()
	return n.call(ctx, request, create, name, member, args)
}

// call runs a script on the shard of a member, under a request or nil.
func (n *namespace) call(ctx context.Context, request *reqid.Request, create bool, name, member string, args []string) (reply *script.Reply, err error) {
	err = n.at(ctx, create, member, func(base string, shards int) error {
		var err error
		reply, err = n.ask(ctx, request, name, base, shards, args...)
		return err
	})
	if err != nil || reply != nil && reply.None() {
		return nil, err
	}
	return reply, nil
}

// maxRecounts is how often one call may find that the namespace has begun anew.
const maxRecounts = 3

// at has do work on the shard of a member, and again if that says that the shard is not
// begun, or one of another number than is known. It does nothing where there is nothing,
// unless create is set.
func (n *namespace) at(ctx context.Context, create bool, member string, do func(base string, shards int) error) error {
	shards, err := n.count(ctx, create)
	if err == nil && create {
		n.entry.Touch()
	}
	for recounts := 0; err == nil && shards > 0; recounts++ {
		base := n.base(member, shards)
		err := do(base, shards)
		missing, other := errors.Is(err, errNoShard), errors.Is(err, errShards)
		switch {
		case !missing && !other:
			return err
		case recounts == maxRecounts:
			return millrace.ErrBroken.Wrap(err)
		}
		known := shards
		if shards, err = n.recount(ctx, create); err != nil {
			return err
		}
		switch {
		case shards != known: // what was known is from before
		case other:
			return millrace.ErrBroken.Errorf("the shard %s is not one of %d", base, shards)
		case !create:
			return nil
		default:
			_, err := n.ask(ctx, nil, n.kind.script("begin"), base, shards)
			if err != nil && !errors.Is(err, errShards) {
				return err
			}
		}
	}
	return err
}

// ask runs a script on a shard of so many.
func (n *namespace) ask(ctx context.Context, request *reqid.Request, name, base string, shards int, args ...string) (*script.Reply, error) {
	args = append([]string{strconv.Itoa(shards)}, args...)
	if request == nil {
		return n.run.Run(ctx, name, base, args...)
	}
	return n.run.RunRequest(ctx, request, name, base, args...)
}

// forget removes the record of a namespace whose shards are gone.
func (n *namespace) forget(ctx context.Context) error {
	c := n.run.Client
	n.known.Store(0)
	if err := n.run.Retry.Do(ctx, func(int) error {
		_, err := script.Prompt(ctx, func(ctx context.Context) (int64, error) {
			return c.Do(ctx, c.B().Unlink().Key(n.kind.recordKey(n.name)).Build()).AsInt64()
		})
		return err
	}); err != nil {
		return err
	}
	n.entry.Leave(ctx)
	return nil
}

// CheckNamespace returns the [millrace.ErrBadName] with which that name of a namespace is
// refused, and nil for one that can be had. It is for programs that look at what
// they were given before they connect.
func CheckNamespace(name string) error { return checkName("namespace", name) }

// checkName refuses what cannot be the name of a namespace, a hash or a key.
func checkName(what, name string) error {
	return names.Check(millrace.ErrBadName, "name of a "+what, name, maxName)
}
