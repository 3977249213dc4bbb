// Package scatter counts on many Redis servers at once: an event is written to one of
// them, and what is read is put together from all.
//
// # The problem
//
// Somebody counts hundreds of thousands of events a minute, some 30 counters and a few
// lists each. One Redis has one thread, and is not enough. The obvious way out sends
// each key to the server that the key's hash names, which makes reading simple; but
// the 30 keys of an event then lie on all servers, so each event needs a connection to
// each of them. Servers are limited by connections and calls before they are by bytes:
// with N of them, each still serves every event, and adding one relieves none.
//
// There are many writers and few readers. So it is the writer's work that must not
// grow: an event goes to one server as a whole, whichever that is, and the reader asks
// all of them.
//
// # The mechanism
//
// A session collects what an event writes, and is one call to one server:
//
//	Session("user 7")                 a        b        c
//	  Add("clicks", 1)
//	  AddFloat("cost", 0.25)  ──────────────▶ clicks 1
//	  Push("log", 100, ...)    one call       cost   0.25
//	  Flush(ctx)                              log    [...]
//
// A gather is one call to each server, all at the same time, and merges:
//
//	                     ┌──▶ a   clicks 17 ──┐
//	Int("clicks")  ──────┼──▶ b   clicks 1  ──┼──▶  20
//	Read(ctx)            └──▶ c   clicks 2  ──┘
//
// Counters are added up. Sets are united. Lists are merged by the time of their
// entries, the newest first. Members of sorted sets have the sum, the largest or the
// smallest of their scores, as the reader says and the writers meant it: Score, Best
// or Least.
//
// Which server a session goes to is nobody's concern but the writer's: by a hash of
// its shard key ([RingHash], or [JavaHash] to agree with a program in Java), in turn
// ([RoundRobin]), or always the same one for a process ([Sticky]). Readers need not
// know. So a server is added by adding it to the lists; to those of the readers first.
//
// A server is left by draining: it is written no more ([Server.Drain], or a writer's
// list without it) and read until its buckets have ended. Each server notes when the
// last of them does, and whether values without an end were written, so [Scatter.Left]
// says when it is empty. Then it leaves the readers' lists.
//
//	writers   a b c    a b      a b      a b
//	readers   a b c    a b c    a b c    a b
//	c has     values   values   nothing
//
// A session is one script. It writes counters and lists at once; the write itself tells
// that a key holds something else, or that a sum does not fit, and then the script undoes
// those before it, the last first. What cannot be undone waits until nothing can fail any
// more: members of sets and their scores, what makes a list shorter, and ends.
//
// Values have the names that callers give them, and are plain Redis values: a text
// that INCRBY takes, a list, a set, a sorted set. An entry of a list is
// "MILLISECONDS BODY", the server's clock and what was pushed, which may be compressed
// with gzip and is then known by its first two bytes, 1f 8b. Programs in other
// languages read them from all servers and merge, and may write them. Everything else
// is in keys that begin with mr:scatter:{GROUP}.
//
// A [Bucket] puts values into stretches of time, which expire. A [Tally] adds up
// counters in memory and writes the sums every 100 ms.
//
// # Guarantees
//
//   - A session is written wholly or not at all.
//   - A flush is done once, however often it is sent: by the library when the reply is
//     lost, or by the caller who calls Flush again. The server remembers it for ten
//     minutes at least, however many others come meanwhile. A repeat that comes later
//     than nine is refused as uncertain, and never counts twice.
//   - A server that may evict values, or what it remembers, is not written to: its
//     maxmemory-policy must be noeviction. [Config.AllowEvictable] accepts the risk.
//   - A gather that returns no error is complete. If servers did not answer, the error
//     is a [*PartialError] with their names, and the results have what the others know.
//   - Sums are exact: of 64 bits, without wrapping around.
//   - An event needs one connection, whatever the number of servers; nothing connects
//     to a server to which nothing is sent.
//   - Lists, gathers and what waits in a Tally are bounded. So is one call: a session
//     has at most 1,000 operations and 1 MiB, a gather makes several calls to a server
//     that has more than that of it.
//   - What a server remembers of flushes leaves by a Redis TTL, after twenty minutes.
//
// # The wrinkle
//
// A gather is not one moment. Each server answers with what it has at one, but these
// differ by the time that the calls take: of two sessions one after the other the later
// one may be seen without the earlier one. What takes several calls to one server has all
// that was there from the first to the last, and may have what was written meanwhile. A
// value that ends meanwhile is not there.
//
// What has ended is not there either, and reads 0 as what was never counted does. Which
// times are kept is known to who writes: ask for none from before now minus Keep.
//
// A server that does not answer is not replaced by another one, because nobody knows
// whether it has written the session. Flush fails, and goes to the same server when it
// is called again. A caller who rather counts twice than not at all begins a new
// session; [RoundRobin] sends that one elsewhere.
//
// What a crash loses is what was not flushed: a session, or the last 100 ms of a Tally
// and what it has under way. A server that forgets its last second loses it here, too.
// After an outage of more than nine minutes in which a server was silent nobody knows
// what became of the sessions that were on their way to it: Flush says so, and a Tally
// drops them and logs each counter with its amount. A server that refused connections
// has had none of them, and they are written when it is back.
//
// That a session is remembered has its price: one of 30 counters costs a server half as
// much again as a script that does 30 INCRBY and nothing else, one of a single counter
// several times as much as INCRBY. Where that is felt, a Tally makes one call of many
// events.
//
// A counter without an end that stood at 0 may be gone when a session was undone, which
// reads the same. Clients that watch keys see what was written and undone.
//
// Times are the servers', so that lists are merged as well as their clocks agree.
//
// # When not to use it
//
// On one server, INCRBY in a pipeline is all you need. Not where readers are many and
// writers few: each read asks all servers. Not for what has to be compared with what is
// there, such as a stock that must not go below nothing; no server knows the sum. Not
// on Redis Cluster, which has its own idea where keys are: use a list of its servers'
// own, or the partitions of a fleet ([Clients] of Partitions).
package scatter
