package registry

import (
	"context"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// DueShards is in how many sorted sets an index by time lies.
const DueShards = 64

// DueAfter is how long after a lease was entered it is looked at: what is left of one that
// was released is gone by then.
const DueAfter = time.Minute + time.Second

// duePeriod is how often a process enters a name that it uses, less up to an eighth. It
// is shorter than DueAfter, by more than the clocks of servers are apart: an entry that a
// process remembers is still there.
const duePeriod = 30 * time.Second

// LeasesKey is the key of one shard of the index of leases, a sorted set: the name of a
// lease -> when to look at it next, in Unix milliseconds.
func LeasesKey(shard int) string { return "mr:leases:{" + strconv.Itoa(shard) + "}" }

// Due is an index of names that come by the million: by when to look at them next. Who
// looks removes those that have ended, and gives the others another time.
type Due struct{ book *book }

// Leases returns the index of leases. The logger is told if the server refuses to enter
// any; nil is slog.Default().
func (r *Registrar) Leases(logger *slog.Logger) Due {
	r.leases.logTo(logger)
	return Due{r.leases}
}

// Enter has a lease looked at a minute after now, which is the server's time, unless this
// process entered it a short while ago. It returns at once.
func (d Due) Enter(name string, now time.Time) { d.book.enter(name, now.Add(DueAfter).UnixMilli()) }

// Withdraw has a lease not entered after all, because it has ended, and reports whether
// that was in time.
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
func ListLeases(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return list{
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
