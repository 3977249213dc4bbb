// Package directory keeps what all who use a fleet must agree about: which
// partitions there are, where on the ring, on which servers, and which of those
// is the master. That is the [Map]; the [Directory] is where it is kept.
//
// # The problem
//
// Clients that disagree about the map lose data: one writes to a server that has
// been replaced, or places a user where nobody else will look. So there is one
// place that decides, it must not answer when it might have been replaced itself,
// and who cannot reach it must stop writing.
//
// # The mechanism
//
// The map is one document with an epoch, a number that only grows. It is
// replaced whole by a compare-and-set: who read epoch 7 may store epoch 8 if the
// stored one is still 7.
//
//	client                       directory                      operator, agent
//	  │ Confirm(7) ───────────────▶ │ 7: yes                         │
//	  │   writes for ViewTTL       │ ◀──────── Change(7, map 8) ─── │
//	  │                             │ 8: stored                      │ waits Grace:
//	  │ Confirm(7) ───────────────▶ │ not any more: map 8            │ nobody writes on
//	  │   goes on by map 8          │                                │ map 7 any more
//
// A client that has the present map is sent nothing but its epoch; one that has an
// older one is sent what was changed since, packed, as long as that is kept and shorter
// than the map.
//
// A client confirms its map a few times within ViewTTL. [Redis] keeps the map in
// a dedicated Redis; a confirmation is a script that the server refuses unless it
// takes writes at that moment, which a replica does not, and with
// min-replicas-to-write neither does a master that was cut off. Clients read the
// map from replicas as well, but that confirms nothing. A server that is silent for
// a tenth of a second is not waited for alone: the next one is asked, too, so that a
// frozen master does not hide the one that has replaced it.
//
// # Guarantees
//
//   - Two changes of the same map: one succeeds, the other has ErrConflict.
//   - A change that succeeded is on the master, and on a replica if one is linked to
//     it. ErrUnconfirmed says that it is on the master only.
//   - A repeat after a lost reply does no harm.
//
// # The wrinkle
//
// Redis replicates behind the reply. When the directory's master is replaced, a
// change may be gone, and the epoch with it; when it is restarted with an old file,
// it confirms the old map again. Clients refuse maps older than the one they have,
// and whoever changes the map takes an epoch above all that the members of the fleet
// know. A master that was cut off goes on confirming until min-replicas-to-write
// stops it, for min-replicas-max-lag and about a second. So the directory remembers
// which of its servers answers, and since when ([Desk]): agents change nothing for
// [SettleTime] after a failover of the directory, or a restart, and no master is
// replaced before that and a Grace. Give the directory min-replicas-max-lag 2.
//
// # When not to use it
//
// It is not for data. Whoever runs a store with consensus can implement Directory
// there: three calls.
package directory
