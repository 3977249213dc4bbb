// Package directory keeps the [Map] of a fleet: its partitions, their points on the
// ring, their servers, and the master of each. The [Directory] stores it, and lets
// agents coordinate.
//
// # The problem
//
// Clients that disagree about the map lose data: one writes to a server that was
// replaced, or places a tag where others do not look. So one place decides, it must not
// answer when it may have been replaced itself, and a client that cannot reach it must
// stop writing.
//
// # The mechanism
//
// The map is one document with an epoch, which only grows. A compare-and-set replaces
// the whole map: a process that read epoch 7 can store epoch 8 if the stored one is still 7.
//
//	client                       directory                      operator, agent
//	  │ Confirm(7) ───────────────▶ │ 7: yes                         │
//	  │   writes for ViewTTL        │ ◀──────── Change(7, map 8) ─── │
//	  │                             │ 8: stored                      │ waits Grace:
//	  │ Confirm(7) ───────────────▶ │ no: map 8                      │ no client writes
//	  │   uses map 8                │                                │ by map 7 any more
//
// A client that has the present map gets only its epoch; one with an older map gets the
// changes since, compressed, while they are stored and shorter than the map.
//
// [Redis] keeps the map in a dedicated Redis. A confirmation is a script that a server
// refuses unless it accepts writes at that moment: a replica does not, and with
// min-replicas-to-write neither does a master without replicas. Clients also read the
// map from replicas, which confirms nothing. If a server does not answer within 100 ms
// the next one is asked as well, so that a frozen master does not hide its successor.
//
// # Guarantees
//
//   - Of two changes of the same map one succeeds, and the other gets ErrConflict.
//   - A successful change is on the master, and on a replica if one is linked.
//     ErrUnconfirmed means that it is on the master only.
//   - A retry after a lost reply is harmless.
//
// # The wrinkle
//
// Redis replicates asynchronously. When the directory's master is replaced, a change and
// its epoch may be lost; when it is restarted with an old file, it confirms the old map.
// Clients refuse maps that are older than theirs, and agents put the newest map into it that
// they remember or members hold, with an epoch above all that are known (package recovery). A partitioned master confirms maps until
// min-replicas-to-write stops it, for min-replicas-max-lag and about a second. So the
// directory remembers which of its servers answers, and since when: agents change
// nothing for [SettleTime] after a failover or restart of the directory, and replace no
// master before that and a Grace. Set min-replicas-max-lag to 2.
package directory
