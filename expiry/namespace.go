package expiry

import (
	"context"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/names"
	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/retry"
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

// shardOf takes a base key, or another key of a shard, apart. It reports false
// for any other key.
func (k kind) shardOf(key string) (name string, shard int, ok bool) {
	tag, ok := strings.CutPrefix(key, string(k))
	tag, _, end := strings.Cut(tag, "}")
	slash := strings.LastIndexByte(tag, '/')
	if !ok || !end || slash < 0 {
		return "", 0, false
	}
	shard, err := strconv.Atoi(tag[slash+1:])
	name = tag[:slash]
	return name, shard, err == nil && shard >= 0 && shard < MaxShards && checkName("namespace", name) == nil
}

// namespace is a name and its fixed number of shards. The first write stores how
// many there are; from then on that holds for everybody.
type namespace struct {
	kind  kind
	name  string
	want  int // shards, if the namespace is new
	run   script.Runner
	claim *script.Script
	entry registry.Entry

	mu     sync.Mutex
	shards int // as stored; 0 while it is not known
}

// shardOf returns the base key of the shard that a hash or key lies in: the CRC-32
// (IEEE) of its name, modulo the number of shards. A namespace that does not
// exist is created if create is set; otherwise ok is false.
func (n *namespace) shardOf(ctx context.Context, member string, create bool) (base string, ok bool, err error) {
	shards, err := n.count(ctx, create)
	if err != nil || shards == 0 {
		return "", false, err
	}
	if create {
		n.entry.Touch()
	}
	return n.kind.shardKey(n.name, int(crc32.ChecksumIEEE([]byte(member))%uint32(shards))), true, nil
}

// count returns how many shards there are, 0 for a namespace that does not exist.
func (n *namespace) count(ctx context.Context, create bool) (int, error) {
	n.mu.Lock()
	known := n.shards
	n.mu.Unlock()
	if known > 0 {
		return known, nil
	}
	want := 0
	if create {
		want = n.want
	}
	reply, err := n.run.Run(ctx, n.claim, n.kind.recordKey(n.name), strconv.Itoa(want))
	if err != nil {
		return 0, named(err)
	}
	stored, err := reply.AsInt64()
	if err != nil {
		return 0, ErrBroken.With(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shards = int(stored)
	return n.shards, nil
}

// bases returns the base keys of all shards, none for a namespace that does not
// exist.
func (n *namespace) bases(ctx context.Context) ([]string, error) {
	shards, err := n.count(ctx, false)
	list := make([]string, shards)
	for i := range list {
		list[i] = n.kind.shardKey(n.name, i)
	}
	return list, err
}

// call runs a script on a shard and names the errors that scripts answer with.
func (n *namespace) call(ctx context.Context, s *script.Script, base string, args ...string) (rueidis.RedisMessage, error) {
	reply, err := n.run.Run(ctx, s, base, args...)
	return reply, named(err)
}

// named gives the errors that Redis answers with the names of this package.
func named(err error) error {
	switch {
	case retry.Code(err, "EXPIRYVERSION"):
		return ErrVersion.With(err)
	case retry.Code(err, "EXPIRYNUMBER"):
		return ErrNotNumber.With(err)
	case retry.Code(err, "EXPIRYBROKEN"), retry.Code(err, "WRONGTYPE"):
		return ErrBroken.With(err)
	}
	return err
}

// CheckNamespace returns the [ErrName] with which that name of a namespace is
// refused, and nil for one that can be had. It is for programs that look at what
// they were given before they connect.
func CheckNamespace(name string) error { return checkName("namespace", name) }

// checkName refuses what cannot be the name of a namespace, a hash or a key.
func checkName(what, name string) error {
	return names.Check(ErrName, "name of a "+what, name, maxName)
}
