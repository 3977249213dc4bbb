// Package pinned stores values that exist until their deadline and not after it, even if the server
// runs out of memory.
//
// # The problem
//
// A key with a TTL may be lost early: when memory is full, servers with a volatile-* policy evict
// exactly the keys with a TTL.
//
// # The mechanism
//
// A value has no Redis TTL, so a volatile-* policy spares it. Its deadline precedes it in a
// hash of its shard, and each read compares it with the server's clock: HGET and TIME in one
// pipeline that goroutines share. A sorted set of each shard says which values are due.
//
//	            Set                        its deadline
//	no value ─────────▶ exists, until its ─────────────▶ expired: hidden, but stored
//	   ▲  ▲             deadline │  ▲                     │  │
//	   │  └───────── Remove ─────┘  └──── Set again ──────┘  │
//	   └─────────── reaped by the job, or by a write ────────┘
//
// # Guarantees
//
//   - A value exists until its deadline and not after it, by the server's clock, to the
//     millisecond, under noeviction and every volatile-* policy. Times are rounded up.
//   - Under an allkeys-* policy nothing is safe: such a server is refused with
//     [millrace.ErrEvictable], unless the program accepts it.
//   - A value that does not fit is refused with [millrace.ErrFull], and no other value has
//     to make room for it. Set first removes expired values in its shard.
//   - Each call may be repeated after a lost reply, and the library does so; its reply is
//     the first one's.
//   - A Set with a claim ([Keys.Claim]) stores nothing if the key was set, removed or claimed since:
//     a value that took time to compute does not replace a newer one, nor outlives a Remove.
//   - Garbage is bounded without any job: a write removes two expired values of its shard.
//
// # Reads from replicas
//
// Get and GetMany are plain commands that only read: see package expiry.
//
// # The wrinkle
//
// All writers must use this package, or keep to docs/WIRE.md; the repair job of [Jobs]
// undoes foreign changes. All values of a shard lie in one hash, so Redis's own tools do not
// show single values, and a Cluster moves a shard to another node as a whole.
//
// The guarantees are those of one server that keeps its data: a failover may lose the last
// writes, and if the new server's clock is ahead, deadlines come earlier.
//
// # When not to use it
//
// For a cache that may lose entries, plain keys with a TTL are right; for one that protects
// a database, there is package fetch on top of this one.
package pinned
