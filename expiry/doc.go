// Package expiry stores hashes whose fields expire one by one, on any Redis since 6.2.
//
// # The problem
//
// Redis expires keys. But in a hash, such as the sessions of a user, each field needs its own
// deadline. Redis has that from 7.4 on and Valkey from 9.0 on; many managed services do not.
// Home-made versions have defects.
//
//   - Deadlines come from the clocks of the clients.
//   - Readers see expired fields, or the length counts them.
//   - A cleaner that removes expired fields in a transaction is always aborted on a hash with many
//     writes, which has the most garbage. And a full server refuses it.
//   - A cleaner that picks hashes at random falls behind where few hashes have most of the garbage.
//
// # The mechanism
//
// The deadline of a field precedes its value. A field exists if the hash has it and its
// deadline is later than the server's clock: expired fields are hidden at once, however
// late they are removed. A sorted set beside the hash holds the fields that have a
// deadline: which to remove, and how many have expired. If it is lost, it is rebuilt from the
// values.
//
// A sorted set beside a hash, cleaned by work stealing (package steal), is the Internet Archive's
// design.
//
// A read is HGET or HMGET, followed by TIME in the same pipeline: a value whose deadline is
// later than that time existed when it was read. Reads of many goroutines share a pipeline
// and its TIME. Only if a field is missing is the shard's record read, too. Writes are
// scripts.
//
//	              Set with a TTL, Expire
//	  without a ─────────────────────────▶ with a ────────────▶ expired: hidden,
//	  deadline  ◀───────────────────────── deadline  its time   but stored
//	    ▲   │        Set, NoTTL             ▲   │                 │
//	Set │   │ Remove         Set with a TTL │   │ Remove          │ reaped, removed by
//	    │   ▼                               │   ▼                 ▼ a write, or set again
//	 ───────────────────────── no field ────────────────────────────
//
// The hashes of a namespace are spread over shards, each with an index: hash -> its
// earliest deadline, or before that. The hash itself has that time in a record: a [Hashes.Set]
// that finds it in the future has nothing to sweep and nothing to enter into the index. Then it
// is four commands in one script: TIME, HGET of the record, ZADD, HSET. The job that reaps
// ([Hashes.Jobs]) goes to due hashes, and spends its budget over as many as that takes; the
// number of hashes does not matter. One script finds expired fields and removes them, so a
// field that is written again at that moment survives, and nothing is aborted.
//
// # Guarantees
//
//   - A field exists until its deadline and not after it, by the server's clock, to the
//     millisecond. Times are rounded up.
//   - Each call may be repeated after a lost reply, and the library does so; its reply is
//     the first one's. A repeated Set without IfNone, IfExist and KeepTTL sets the same again,
//     so a TTL counts from the repeat.
//   - Garbage is bounded without any job: a write to a hash removes up to 10 of its expired
//     fields, or as many as it sets. A job is for hashes that nothing writes to any more.
//   - When Redis is full, Set and Incr first remove expired fields in the shard, and then
//     fail with [millrace.ErrFull] and change nothing. Reading, removing, changing deadlines
//     and reaping work.
//   - Under an allkeys-* policy a server could evict a hash before its time, or half of one.
//     Such a server is refused with [millrace.ErrEvictable], unless the program accepts it.
//
// # Reads from replicas
//
// Get, GetMany and TTL are plain commands that only read. A client that sends reads to
// replicas (SendToReplicas of rueidis, or a fleet that reads from replicas) has them served
// there, the TIME of a read by the node that serves the read. Then the replica's clock
// decides which fields have expired, and recent writes may be missing: use such a client for caches
// and pages, never for leases, tokens or to read your own recent writes. SendToReplicas
// must treat HGET, HMGET and TIME alike, as rueidis.Completed.IsReadOnly does. With a
// ReadNodeSelector of its own the time may be another node's. On a Cluster, give rueidis no
// addresses of replicas: from those it does not read.
//
// # The wrinkle
//
// All writers must use this package, or keep to docs/WIRE.md. A plain HSET leaves a value
// without a deadline in front: reading it fails with [millrace.ErrBroken] until the field is
// set or removed. A plain HDEL leaves an entry in the sorted set, and an EXPIRE deletes the
// whole hash, and makes it evictable: the repair job of [Jobs] undoes these. Readers that
// bypass this package see expired fields until those are removed.
//
// A Set that is repeated after a lost reply overwrites a change, or brings back a field, that
// another program changed or removed in between, as with any client that repeats commands. With
// IfExist it does not bring a removed field back.
//
// The guarantees are those of one server that keeps its data: a failover may lose the last
// writes, and if the new server's clock is ahead, deadlines come earlier.
//
// # When not to use it
//
// If all servers are Redis 7.4 or Valkey 9 and will stay so, HEXPIRE is one command instead of
// this package's script, needs less memory for deadlines, and no upkeep; only the
// exact length, and replies that no server version changes, speak for this package there.
// For a cache that may lose entries plain keys with a TTL are right; for single values that
// must stay until their deadline there is package pinned. Fields that expire together are better
// removed together: [Hashes.RemoveHash] takes the same time for a million fields as for one.
package expiry
