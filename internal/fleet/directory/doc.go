// Package directory keeps the [Map] of a fleet: its partitions, their points on the
// ring, their servers, and the master of each. A [Directory] keeps it in a [Store], and lets
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
// The map is one document with an epoch, which only grows. A compare-and-put replaces
// the whole map: a process that read epoch 7 can store epoch 8 if the stored one is still 7.
//
//	client                       directory                      operator, agent
//	  │ Confirm(7) ───────────────▶ │ 7: yes                         │
//	  │   writes for ViewTTL        │ ◀──────── Change(7, map 8) ─── │
//	  │                             │ 8: stored                      │ waits Grace:
//	  │ Confirm(7) ───────────────▶ │ no: map 8                      │ no client writes
//	  │   uses map 8                │                                │ by map 7 any more
//
// A store has three operations: get values, compare and put them, and hold a name for a TTL.
// Everything else is written once, above them:
//
//	epoch            the epoch of the map, its sum, and the number of its last change
//	map              the map, compressed
//	change/0 to /15  the last 16 differences between maps
//	log, snapshots   lists, compressed
//	moves            the names of the runs that move tags
//	agent, turn/NODE, run/NAME   are held: by the leader, by processes that fork a server of
//	                 the node, by runs that go on
//
// A change compares the value epoch, and puts it with the map and a difference. A confirmation
// reads only the epoch. A client with an older map reads the differences since, and the map if
// they are not kept. A change of a list compares the list.
//
// [Redis] is a store in one server. Package etcd has the other.
//
// # Guarantees
//
//   - After a change has returned, no confirmation that begins later confirms the former map.
//   - Of two changes of the same map one succeeds, and the other gets ErrConflict.
//   - A repeat after a lost reply is harmless.
//   - A change that was reported outlives the death of any server of the directory.
//
// # The wrinkle
//
// One Redis with appendfsync always loses nothing when it is killed and started again. While
// it is down the fleet is read-only. If its disk is lost, so is the directory: agents keep copies
// of the map, from which package recovery makes another one. A replica of that Redis is no spare: it
// may lack the newest maps. A directory of several servers is etcd.
//
// A directory that was restored from a backup confirms an old map. Clients refuse maps that are
// older than theirs, and agents put the newest map into it that they remember or members hold,
// with an epoch above all that are known (package recovery).
//
// Times of events and snapshots are those of the agents: keep their clocks in step. A result
// that is more than a minute in the future counts for nothing.
package directory
