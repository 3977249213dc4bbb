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
// Next to the hash of the values lies a sorted set of the deadlines of those fields
// that have one. A field is there if the hash has it and its deadline, if any, lies
// ahead of the server's clock. Every script looks at both, so what is expired is
// hidden at once, however late it is removed.
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
//     expired fields. A job is for hashes that nobody writes to any more.
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
// [ErrEvictable], unless the program accepts it. A value that does not fit is
// refused with millrace.ErrFull, and no other one has to make room for it.
//
// # The wrinkle
//
// All writers must use this package, or keep to docs/WIRE.md. A plain HSET does not
// know of the deadline that the field had: the new value ends with the old one's
// time. A plain HDEL leaves a deadline behind, and an EXPIRE makes the whole
// hash go, and evictable. [RepairHashesJob] and [RepairKeysJob] undo what can still
// be seen, but not the first. Readers past this package see expired fields until
// those are removed.
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
// command what this does with a script, needs a third of the memory for deadlines,
// and no upkeep; only the exact length, and replies that no server version changes,
// speak for [Hashes] there. For a cache that may lose entries plain keys with a TTL are
// right. What expires together is better deleted together: [Hashes.DeleteHash]
// takes the same time for a million fields as for one.
package expiry
