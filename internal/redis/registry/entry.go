package registry

import (
	"context"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

// entryPeriod is how often a process enters a structure that it uses, less up to an eighth. It
// bounds how long a structure is unlisted that another process deleted and this one made again.
// It is shorter than young, so upkeep removes no entry that a process remembers.
const entryPeriod = 10 * time.Second

// Registrar registers the structures that one client uses. It is safe for concurrent use.
type Registrar struct {
	structures *book
	leases     *book
}

// maxClients is how many registrars are cached.
const maxClients = 64

// clients caches the registrars of recent clients. It is a package variable because
// structures share nothing but the caller's client, and a program may make a structure
// for each call.
var clients struct {
	mu   sync.Mutex
	of   map[rueidis.Client]*Registrar
	last []rueidis.Client // newest last
}

// Of returns the client's registrar. It does no I/O.
func Of(client rueidis.Client) *Registrar {
	if !reflect.ValueOf(client).Comparable() {
		return newRegistrar(client) // not cached
	}
	clients.mu.Lock()
	defer clients.mu.Unlock()
	if r := clients.of[client]; r != nil {
		return r
	}
	if clients.of == nil {
		clients.of = map[rueidis.Client]*Registrar{}
	}
	if len(clients.last) == maxClients {
		delete(clients.of, clients.last[0])
		clients.last = append(clients.last[:0], clients.last[1:]...)
	}
	r := newRegistrar(client)
	clients.of[client] = r
	clients.last = append(clients.last, client)
	return r
}

func newRegistrar(client rueidis.Client) *Registrar {
	return &Registrar{
		structures: newBook(client, parts, entryPeriod,
			"structures cannot be entered in the registry, so that lists and upkeep may not find them: allow HSET of mr:registry:*", hset),
		leases: newBook(client, DueShards, duePeriod,
			"leases cannot be entered in their index, so that lists and upkeep may not find them: allow ZADD to mr:leases:*", zadd),
	}
}

func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

func hset(c rueidis.Client, shard int, members map[string]int64) rueidis.Completed {
	pairs := c.B().Hset().Key(key(shard)).FieldValue()
	for member, value := range members {
		pairs = pairs.FieldValue(member, strconv.FormatInt(value, 10))
	}
	return pairs.Build()
}

func zadd(c rueidis.Client, shard int, members map[string]int64) rueidis.Completed {
	pairs := c.B().Zadd().Key(LeasesKey(shard)).ScoreMember()
	for member, at := range members {
		pairs = pairs.ScoreMember(float64(at), member)
	}
	return pairs.Build()
}

// Settle sends all queued entries, and waits for the replies or the end of ctx. It is for
// programs that close their client right after they used a structure.
func Settle(ctx context.Context, client rueidis.Client) {
	r := Of(client)
	var settling sync.WaitGroup
	for _, b := range []*book{r.structures, r.leases} {
		for shard := range b.shards {
			settling.Go(func() { b.settle(ctx, shard) })
		}
	}
	settling.Wait()
}

// Entry is one structure's place in the registry. The zero value enters nothing.
type Entry struct {
	book    *book
	member  string
	touched atomic.Uint32 // the number of the period in which it last was
}

// Enter makes e the entry of a structure. The first Touch registers it. The logger reports
// that the server refuses; nil is slog.Default().
func (e *Entry) Enter(client rueidis.Client, kind Kind, name string, logger *slog.Logger) {
	e.book, e.member = Of(client).structures, field(kind, name)
	e.book.logTo(logger)
}

// Touch registers the structure in the background, once a period. Call it after each call
// that shows that the structure exists; it costs nanoseconds.
func (e *Entry) Touch() {
	if b := e.book; b != nil && e.touched.Load() != b.generation.Load() {
		e.touched.Store(b.generation.Load())
		b.enter(e.member, time.Now().UnixMilli())
	}
}

// leaveTimeout is how long a deletion waits for the entry to be removed.
const leaveTimeout = time.Second

// Leave removes the entry of a deleted structure, best effort: upkeep removes entries that
// remain.
func (e *Entry) Leave(ctx context.Context) {
	b := e.book
	if b == nil {
		return
	}
	ctx, cancel := script.Within(ctx, leaveTimeout)
	defer cancel()
	shard := shardOf(e.member, len(b.shards))
	b.withdraw(e.member)
	b.settle(ctx, shard)
	b.withdraw(e.member) // if it was being sent, and that failed
	_, _ = script.Prompt(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.client.Do(ctx, b.client.B().Hdel().Key(key(shard)).Field(e.member).Build()).Error()
	})
	b.forget(e.member)
	e.touched.Store(0) // a new structure of that name is entered again
}

// DueShards is the number of sorted sets of an index by time.
const DueShards = 64

// DueAfter is the time from the entry of a lease to its first check. The record of a
// released lease is gone by then.
const DueAfter = time.Minute + time.Second

// duePeriod is the interval at which a process enters a name in use, less up to an eighth.
// It is shorter than DueAfter by more than the clocks of servers differ, so an entry that
// a process remembers still exists.
const duePeriod = 30 * time.Second

// LeasesKey is the key of one shard of the index of leases, a sorted set: the name of a
// lease -> the time of its next check, in Unix milliseconds.
func LeasesKey(shard int) string { return "mr:leases:{" + strconv.Itoa(shard) + "}" }

// Due is an index of many names by the time of their next check. A check removes ended
// names and gives the others a later time.
type Due struct{ book *book }

// Leases returns the index of leases. The logger reports that the server refuses entries;
// nil is slog.Default().
func (r *Registrar) Leases(logger *slog.Logger) Due {
	r.leases.logTo(logger)
	return Due{r.leases}
}

// Enter schedules the check of a lease a minute after now, the server's time, unless this
// process entered it in this period. It does not block.
func (d Due) Enter(name string, now time.Time) { d.book.enter(name, now.Add(DueAfter).UnixMilli()) }

// Withdraw removes a queued entry of a lease that has ended, and reports whether it was
// still queued.
func (d Due) Withdraw(name string) bool { return d.book.withdraw(name) }
