// Package failover replaces the masters of a fleet that are lost, puts members right
// that have come back, and wakes nobody.
//
// # The problem
//
// A replica can take over from a master that died. But nobody can tell a dead master
// from one that is slow, stopped or cut off: it may be taking writes, and answering
// for them, at the moment in which another one is made the master. Whatever it
// answers for after that is lost. Redis' own means do not prevent it: a master that
// was stopped and goes on does everything that was waiting for it, whatever
// min-replicas-to-write says.
//
// # The mechanism
//
// Clients of a fleet keep the fence (package fleet): they write only by a map that
// the directory confirmed a moment ago, and take no late reply for a success. So
// changing the map and waiting is enough to know that nobody writes any more. An
// [Agent] reports at all members again and again:
//
//	         three reports missed, or the
//	         master was started again             Grace           the map names another
//	full ────────────────────────▶ read-only ──────────────▶ ... ──────────────────────▶ full
//	  ▲   the map says so: epoch+1     ▲     fence all that answer            epoch+1
//	  │                                │     elect, promote                      │
//	  │                                └── nobody can be elected: once more      │
//	  └───────── replicas follow, one at a time on a node ◀──────────────────────┘
//
// Every server begins boot-fenced, as a replica of nobody that may not be read: what
// it has on its disk may be old, or gone. The map names the run id in which each member
// was last known to be whole: elected, or with all that its master had a look ago. In
// another run it was started again. As the master it is fenced, examined, and elected
// if nobody has more; as a replica it does not count for what was confirmed. Replicas
// log in to their master as a user that only the agents make, for one run of it: even
// one that comes back without its fence is copied by nobody.
//
// The member that is elected is the one that is furthest in the history of the master
// (its replication id); how far others are in other histories means nothing.
//
// Several agents may run. One leads, by a lease in the directory; the others are
// there for when it dies. That is for peace. For safety there is the epoch: every
// step is a compare-and-set on it, and an agent that was stopped in the middle and
// wakes up finds that its last step is refused.
//
// # Guarantees
//
//   - At no time are writes to two servers of a partition successes.
//   - A write that was confirmed by WaitReplicas is not lost, for as many replicas as
//     Settings.Confirmed says, 1 by default: with fewer to be seen than it takes to
//     know, the partition stays read-only.
//   - Without that, what is lost is what the elected member had not been sent.
//   - Read-only ends by itself when a member with the data can be reached, whoever
//     dies in between.
//   - A member that lost its data is never the master, and copies from it are never
//     made.
//   - What a member had on its disk when it was started is not read before it was
//     examined.
//   - When the directory has failed over, agents wait until nobody can go by maps that
//     its server of before has confirmed.
//   - An agent that was held up, or that misses more than half of all members, does
//     nothing: the trouble may be its own.
//
// # The wrinkle
//
// It takes three reports, a Grace and a promotion until writes go on: some three
// seconds by the defaults, of which half is the Grace. A shorter ViewTTL makes it
// less, and the directory's pauses felt more.
//
// A member that comes back without its boot fence can be read, and written, until the
// next look. What it takes then is lost, unless the writer waits for a replica.
//
// An agent that is cut off from a master that clients can reach replaces it all the
// same. Nothing is lost by that; writes wait for a moment.
//
// # When not to use it
//
// When an engine with a majority should decide: Redis Cluster, or Sentinel, whose
// failovers lose what was acknowledged by the old master meanwhile.
//
// The protocol is that of the notes on partitioned Redis in the design, without its
// lease on the members: the clients' fence does what that would do.
package failover
