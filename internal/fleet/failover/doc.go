// Package failover replaces masters of a fleet that fail, and repairs members that come
// back.
//
// # The problem
//
// A replica can replace a dead master. But a dead master looks like one that is slow,
// stopped or partitioned: it may still accept writes when another member is promoted,
// and all that it confirms after that is lost. Redis does not prevent this: a master that
// was stopped and resumes executes all pending commands, whatever min-replicas-to-write
// is.
//
// # The mechanism
//
// The clients of a fleet keep the fence (package fleet): they write only by a map that
// the directory confirmed a moment ago, and a late reply is not a success. So an agent
// that changes the map and waits for the Grace knows that no client writes any more. An
// [Agent] probes all members at an interval:
//
//	         three probes missed, or the
//	         master was restarted                Grace            the map names another
//	healthy ─────────────────────▶ read-only ──────────────▶ ... ───────────────────▶ healthy
//	  ▲   the map says so: epoch+1     ▲     fence all that answer            epoch+1
//	  │                                │     elect, promote                      │
//	  │                                └── nothing to elect: retry               │
//	  └──────── replicas follow, one at a time per node ◀────────────────────────┘
//
// Every server starts boot-fenced: as a replica of an address where no server listens. It
// refuses reads, since its data may be old, or gone. The map has, for each member, the
// run id in which it was last known to have all its data. A member in another run was
// restarted. If it is the master, it is fenced and examined, and elected if no member has
// more data; if it is a replica, it does not count for confirmed writes. Replicas log in
// to their master as a user that agents create for one run, so no replica copies a master
// that came back without its fence.
//
// The election chooses the member with the highest offset in the master's history (its
// replication id). Offsets in other histories mean nothing.
//
// Several agents can run. One leads, by a lease in the directory. The lease only avoids
// duplicate work: for safety every step is a compare-and-set on the epoch, so an agent
// that was stopped in the middle fails at its last step.
//
// # Guarantees
//
//   - Writes never succeed on two servers of a partition at the same time.
//   - A write that was confirmed by WaitReplicas is not lost, for as many replicas as
//     Settings.Confirmed says, 1 by default: if too few replicas answer to be sure, the
//     partition stays read-only.
//   - Without WaitReplicas, what the elected member had not received is lost.
//   - Read-only ends by itself when a member with the data answers, after any crash.
//   - A member that lost its data is never promoted, and never copied.
//   - The data that a member had on its disk is not served before it was examined.
//   - After a failover of the directory, agents wait until no client uses maps that its
//     former server has confirmed.
//   - An agent that was suspended, or that misses more than half of all members, does
//     nothing: the fault may be its own.
//
// # The wrinkle
//
// Three probes, a Grace and a promotion take some three seconds by the defaults, half of
// it the Grace. A shorter ViewTTL is faster, and more sensitive to pauses of the
// directory.
//
// A member that comes back without its boot fence can be read, and written, until the
// next probe. Such writes are lost, unless the writer waits for a replica.
//
// An agent that is partitioned from a master that clients can reach replaces it. Nothing
// is lost by that; writes wait for a moment.
//
// # When not to use it
//
// If a majority should decide: Redis Cluster, or Sentinel, whose failovers lose writes
// that the old master confirmed meanwhile.
package failover
