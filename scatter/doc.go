// Package scatter counts on many Redis servers at once: an event is written to one of them, and
// a read merges all of them.
//
// # The problem
//
// An application counts hundreds of thousands of events a minute, some 30 counters and a few
// lists each, more than one Redis can serve. The usual solution selects the server by the hash of
// each key, which makes reading simple; but the 30 keys of an event are then on all servers, so
// each event needs a call to each of them, and more servers relieve none.
//
// There are many writers and few readers. So an event goes to one server as a whole, and the
// reader asks all of them: write to one, read from all. Flite arrived at it when the number of
// connections, not of bytes, was the limit of its servers.
//
// # The mechanism
//
// A session collects the writes of an event, and is one call to one server:
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
// Counters are added. Sets are united. Lists are merged by the time of their entries, the newest
// first. The scores of a sorted set's member are added, or the largest or smallest counts: a
// [Merge], which writers and readers share.
//
// Only the writer decides which server a session goes to: by a hash of its shard key (the
// default, or [JavaHash] to agree with Java programs), in turn ([RoundRobin]), or by a function of
// your own in [Config.Shard]: one that always returns the same random number modulo n gives each
// process one connection. To add a server, add it to the lists, first to those of the readers.
//
// To remove a server, drain it: stop writing to it ([Server.Drain], or a writer's list without
// it) and read it until its buckets have ended. Each server records when the last of them does,
// and whether values without an end were written, so [Scatter.Left] reports when it is empty.
// Then remove it from the readers' lists.
//
//	writers   a b c    a b      a b      a b
//	readers   a b c    a b c    a b c    a b
//	c has     values   values   nothing
//
// A session is one script. It writes counters and lists at once. If a write fails, because a key
// has another type or a sum does not fit, the script undoes the writes before it, the last
// first. Writes that cannot be undone come last, when nothing can fail any more: members of sets and
// their scores, trimming of lists, and expiry times.
//
// Values have the names that callers give them, and are plain Redis values: a string for
// INCRBY, a list, a set, a sorted set. An entry of a list is "MILLISECONDS BODY", the server's
// clock and the body, which may be compressed with gzip and then begins with 1f 8b. Programs in
// other languages may write such values, and read them from all servers. So a value and an Ick
// cannot have one name on one server: the second one is refused. All other keys begin with
// mr:scatter:{GROUP}.
//
// A [Bucket] puts values into intervals of time, which expire. A [Tally] adds up counters in
// memory and writes the sums every 100 ms.
//
// # Guarantees
//
//   - A session is written completely or not at all.
//   - A flush takes effect once, however often it is sent: by the library after a lost reply, or
//     by another call of Flush. The server remembers it for at least ten minutes, whatever the
//     traffic. A repeat after nine minutes fails as uncertain, and never counts twice.
//   - A server that may evict values or its memory of flushes is not written to: its
//     maxmemory-policy must be noeviction. [Config.AllowEvictable] accepts the risk.
//   - A gather without an error is complete. If servers did not answer, the error is
//     millrace.ErrPartial with their names, and the results have the data of the others.
//   - Sums are exact 64-bit numbers, without overflow.
//   - An event needs one connection, whatever the number of servers; a process connects only to
//     servers that it calls.
//   - Lists, gathers and the waiting counters of a Tally are bounded. So is one call: a session
//     has at most 1,000 operations and 1 MiB, and a gather makes several calls to a server that
//     has more than that.
//   - A server's memory of flushes expires by a Redis TTL, after twenty minutes.
//
// # The wrinkle
//
// A gather is not one moment: of two sessions in sequence it may see only the later one. A value
// that takes several calls to one server has all entries that existed from the first to the last, and
// perhaps entries written meanwhile. A value that ends meanwhile is missing.
//
// An expired value reads 0, as one that was never counted. Readers must know the writers' Keep, and
// ask for no older bucket.
//
// No other server replaces one that does not answer, because it may have written the session.
// Flush fails, and goes to the same server when it is called again. A caller that prefers
// double counts to lost ones begins a new session; [RoundRobin] sends that one elsewhere.
//
// A crash loses unflushed writes: a session, or the last 100 ms of a Tally and its calls in
// flight. After more than nine minutes without an answer of a server, the outcome of the sessions
// in flight to it is unknown: Flush reports that, and a Tally drops them and logs each counter with
// its amount. A server that refused connections received none of them, and gets them later.
//
// Remembering sessions has a price: one of 30 counters costs a server half as much again as a
// script with 30 INCRBY, one of a single counter several times an INCRBY. Where that matters, a
// Tally makes one call of many events.
//
// A counter without an end that stood at 0 may be deleted by an undo, which reads the same.
// Clients that watch keys see writes that are undone.
//
// Times are the servers': merged lists are as well ordered as their clocks agree.
//
// # When not to use it
//
// On one server, INCRBY in a pipeline is enough. Not where readers are many and writers few:
// each read asks all servers. Not for conditions such as a stock that must not go below zero: no
// server knows the sum. Not on Redis Cluster, which places keys by itself: use separate servers,
// or the partitions of a fleet ([Clients] of Partitions).
package scatter
