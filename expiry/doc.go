// Package expiry keeps values in Redis exactly as long as they are to live: the
// fields of a hash one by one ([Hashes]), and single values that no server evicts
// before their time ([Keys]).
//
// # The problem
//
// Redis expires keys. What belongs together, say the sessions of a user or what
// was worked out about a document, lies in one hash, and there each field wants a
// time of its own. Redis has that from 7.4 on and Valkey from 9.0 on; many managed
// services do not. What people build instead has the same flaws again and again.
//
//   - Deadlines come from the clocks of the clients.
//   - Readers see fields whose time is over, or the length counts them.
//   - A cleaner watches the hash, finds expired fields and removes them in a
//     transaction. On a hash that is written to often it is aborted each time, and
//     such a hash makes the most garbage. And a full server refuses it.
//   - The cleaner picks hashes at random, and falls behind where a few of many
//     hashes make most of the garbage.
//
// A key with a TTL has a flaw of its own: when memory is full, it is what a server
// evicts first, so a value that was to stay for an hour may be gone in a second.
//
// # Hashes: the mechanism
//
// In front of each value stands its deadline, or that it has none. A field is there if the
// hash has it and its deadline lies ahead of the server's clock, so what is expired is
// hidden at once, however late it is removed. Next to the hash lies a sorted set of the
// fields that have a deadline. It says what to remove, and how many are expired; if it is
// lost, it is made anew from the values.
//
// A read is HGET or HMGET, and TIME behind it in the same pipeline: a value whose deadline
// is later than that time was not over when it was read. Reads of many goroutines share a
// pipeline and its TIME. Only when something is missing is the shard looked at, too. Writes
// are scripts.
//
//	              Set with a TTL, Expire
//	  without a ─────────────────────────▶ with a ────────────▶ expired: hidden,
//	  deadline  ◀───────────────────────── deadline  its time   but stored
//	    ▲   │        Set, Persist           ▲   │                 │
//	Set │   │ Delete         Set with a TTL │   │ Delete          │ reaped, swept by a
//	    │   ▼                               │   ▼                 ▼ write, or set anew
//	 ───────────────────────── no field ────────────────────────────
//
// The hashes of a namespace are spread over shards, each with an index of its
// own: hash -> its earliest deadline, or before that. So [Hashes.ReapJob] goes to
// where something is due, and spends its budget over as many hashes as that takes;
// how many hashes there are does not matter. Looking up what is expired and
// removing it is one script, so a field that is written again at that moment
// survives, and nothing is ever aborted.
//
// # Hashes: the guarantees
//
//   - A field is there until its deadline and not after it, by the server's clock,
//     to the millisecond. Times are rounded up.
//   - Every call sees that alike: [Hashes.Len] is exact, and a hash whose fields are
//     all expired has none.
//   - Answers are those of Redis 8: HSETEX with FNX, FXX and KEEPTTL, HEXPIRE with
//     NX, XX, GT and LT, HTTL, HPERSIST.
//   - Setting many fields is all or nothing.
//   - Each call may be repeated after a lost reply, and the library does so; its
//     answer is the first one's.
//   - Garbage is bounded without any job: a write to a hash removes up to 10 of its
//     expired fields, or as many as it sets. A job is for hashes that nobody writes to
//     any more.
//   - When Redis is full, Set and Incr first remove what has expired in the shard,
//     and then fail with millrace.ErrFull and change nothing. Reading, deleting,
//     giving deadlines and reaping work.
//
// # Keys
//
// A deterministic value is there until its deadline, even if the server runs out
// of memory before: it has no Redis TTL, by which servers pick what they evict.
// Its deadline lies beside it and is compared with the server's clock; an index
// says what is overdue. That holds under noeviction and every volatile-* policy.
// Under an allkeys-* policy nothing is safe, so such a server is refused with
// [millrace.ErrEvictable], unless the program accepts it. A value that does not fit is
// refused with millrace.ErrFull, and no other one has to make room for it.
//
// # Reads from replicas
//
// Get, GetMany, Exists and TTL of both are plain commands that only read. A client that
// sends what only reads to replicas (SendToReplicas, or a fleet that reads from replicas)
// has them served there, the TIME of a read by the node that serves the read. Then the
// replica's clock says what is over, and what was written a moment ago may be missing:
// such a client is for caches and pages, and never for leases, tokens or what is read back
// after it was written. SendToReplicas must say the same of HGET, HMGET and TIME, as
// rueidis.Completed.IsReadOnly does. With a ReadNodeSelector of its own the time may be
// another node's. On a Cluster, give rueidis no addresses of replicas: from those it does
// not read.
//
// # The wrinkle
//
// All writers must use this package, or keep to docs/WIRE.md. A plain HSET leaves a value
// without a deadline in front, which is refused as millrace.ErrBroken until somebody sets
// the field or deletes it. A plain HDEL leaves a place in the sorted set behind, and an
// EXPIRE makes the whole hash go, and evictable: [RepairHashesJob] and [RepairKeysJob]
// undo these. Readers past this package see expired fields until those are removed.
//
// [Hashes] are as safe from eviction as the policy makes them: their keys have no
// Redis TTL, so noeviction and volatile-* spare them and allkeys-* does not.
//
// The guarantees are those of one server that keeps its data: a failover may lose
// the last writes, and with a replica's clock that is ahead times end earlier.
//
// # When not to use it
//
// If all servers are Redis 7.4 or Valkey 9 and will stay so, HEXPIRE does with one
// command what this does with a script, needs less memory for deadlines,
// and no upkeep; only the exact length, and replies that no server version changes,
// speak for [Hashes] there. For a cache that may lose entries plain keys with a TTL are
// right. What expires together is better deleted together: [Hashes.DeleteHash]
// takes the same time for a million fields as for one.
package expiry
