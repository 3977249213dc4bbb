package registry

import (
	"context"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

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
// lease -> when to look at it next, in Unix milliseconds.
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

func zadd(c rueidis.Client, shard int, members map[string]int64) rueidis.Completed {
	words := make([]string, 0, 2*len(members))
	for member, at := range members {
		words = append(words, strconv.FormatInt(at, 10), member)
	}
	return c.B().Arbitrary("ZADD").Keys(LeasesKey(shard)).Args(words...).Build()
}

// ListLeases goes through the names of the leases in the index of which Redis knows
// anything, as List does.
func ListLeases(ctx context.Context, client rueidis.Client, check func(name string) error) iter.Seq2[string, error] {
	return list{
		check:  check,
		client: client,
		book:   Of(client).leases,
		scan: func(shard int, cursor uint64) rueidis.Completed {
			return client.B().Zscan().Key(LeasesKey(shard)).Cursor(cursor).Count(listCount).Build()
		},
		name: func(member string) string { return member },
		keys: func(name string) []string { return []string{leasePrefix + name + "}"} },
		what: "the index of leases",
	}.all(ctx)
}
