package expiry

import (
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
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
			return millrace.ErrBroken.With(err)
		}
		known := shards
		if shards, err = n.recount(ctx, create); err != nil {
			return err
		}
		switch {
		case shards != known: // what was known is from before
		case other:
			return millrace.ErrBroken.Saying("the shard %s is not one of %d", base, shards)
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

// each calls do for all shards at the same time, by what the record says now, and
// returns how many there are. A shard in which nothing was stored is no error.
func (n *namespace) each(ctx context.Context, do func(base string, shards int) error) (int, error) {
	shards, err := n.recount(ctx, false)
	if err != nil {
		return 0, err
	}
	_, err = n.inShards(n.bases(shards), func(base string) error { return do(base, shards) })
	return shards, err
}

// bases are the base keys of so many shards.
func (n *namespace) bases(shards int) []string {
	bases := make([]string, shards)
	for i := range bases {
		bases[i] = n.kind.shardKey(n.name, i)
	}
	return bases
}

// inShards calls do for shards at the same time. It reports whether in one of them nothing
// was stored, which is no error.
func (n *namespace) inShards(bases []string, do func(base string) error) (missing bool, err error) {
	failed := make([]error, len(bases))
	var none atomic.Bool
	var running sync.WaitGroup
	for i, base := range bases {
		running.Go(func() {
			err := do(base)
			switch {
			case errors.Is(err, errShards):
				failed[i] = millrace.ErrBroken.With(err)
			case errors.Is(err, errNoShard):
				none.Store(true)
			default:
				failed[i] = err
			}
		})
	}
	running.Wait()
	return none.Load(), errors.Join(failed...)
}

// eachDue calls do for the shards in which something is due, and for one more by turns,
// which also finds out whether the namespace is still the one that is known. What is due
// is asked of all shards in one pipeline: a look that finds nothing must cost little,
// since every process takes one every few seconds.
func (n *namespace) eachDue(ctx context.Context, do func(base string, shards int, due bool) error) error {
	shards, err := n.count(ctx, false)
	if err != nil || shards == 0 {
		return err
	}
	bases := n.bases(shards)
	due, err := n.overdue(ctx, 1, bases...)
	if err != nil {
		return err
	}
	turn := int(n.turn.Add(1)) % shards
	var chosen []string
	for i, base := range bases {
		if len(due[i]) > 0 || i == turn {
			chosen = append(chosen, base)
		}
	}
	missing, err := n.inShards(chosen, func(base string) error { return do(base, shards, len(due[slices.Index(bases, base)]) > 0) })
	if missing || errors.Is(err, errShards) {
		if now, lost := n.recount(ctx, false); lost != nil || now != shards {
			return lost // the next slice goes by the new number
		}
	}
	return err
}

// overdue returns for each shard the first names in its index whose time has come, at most
// so many. On a Cluster it goes by the clock of the first one's node: what is done about
// them goes by the right one. A shard that fails has one name, "", for others to find out.
func (n *namespace) overdue(ctx context.Context, most int, bases ...string) ([][]string, error) {
	c := n.run.Client
	results, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		cmds := make(rueidis.Commands, len(bases))
		for i, base := range bases {
			cmds[i] = c.B().Zrange().Key(base + ":due").Min("0").Max(strconv.Itoa(most - 1)).Withscores().Build()
		}
		return c.DoMulti(ctx, append(cmds, timeAt(c, bases[0]))...), nil
	})
	if err != nil {
		return nil, err
	}
	now, err := microsOf(results[len(bases)])
	names := make([][]string, len(bases))
	for i := range bases {
		heads, failed := results[i].AsZScores()
		if failed != nil {
			heads = []rueidis.ZScore{{}}
		}
		for _, head := range heads {
			if head.Score <= float64(now/1000) {
				names[i] = append(names[i], head.Member)
			}
		}
	}
	return names, n.run.Name(err)
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

// indexPage is about how many names a page of an index has.
const indexPage = 100

// names goes through the names in the indexes of all shards.
func (n *namespace) names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		shards, err := n.recount(ctx, false)
		if err != nil {
			yield("", err)
			return
		}
		for i := range shards {
			for cursor := uint64(0); ; {
				page, next, err := n.index(ctx, n.kind.shardKey(n.name, i), cursor)
				if err != nil {
					yield("", err)
					return
				}
				for _, name := range page {
					if !yield(name, nil) {
						return
					}
				}
				if cursor = next; cursor == 0 {
					break
				}
			}
		}
	}
}

// index brings a page of the names in the index of a shard, and the cursor of the next.
func (n *namespace) index(ctx context.Context, base string, cursor uint64) (names []string, next uint64, err error) {
	c := n.run.Client
	err = n.run.Retry.Do(ctx, func(int) error {
		page, err := script.Prompt(ctx, func(ctx context.Context) (rueidis.ScanEntry, error) {
			return c.Do(ctx, c.B().Zscan().Key(base+":due").Cursor(cursor).Count(indexPage).Build()).AsScanEntry()
		})
		names, next = names[:0], page.Cursor
		for i := 0; i < len(page.Elements); i += 2 {
			if name := page.Elements[i]; name != "" { // which is the placeholder
				names = append(names, name)
			}
		}
		return err
	})
	return names, next, n.run.Name(err)
}

// CheckNamespace returns the [millrace.ErrBadName] with which that name of a namespace is
// refused, and nil for one that can be had. It is for programs that look at what
// they were given before they connect.
func CheckNamespace(name string) error { return checkName("namespace", name) }

// checkName refuses what cannot be the name of a namespace, a hash or a key.
func checkName(what, name string) error {
	return names.Check(millrace.ErrBadName, "name of a "+what, name, maxName)
}
