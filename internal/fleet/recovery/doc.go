// Package recovery finds the newest map of a fleet whose directory has lost its data, or went
// back to an old map.
//
// # The problem
//
// The directory is small, and everything depends on it: without the map the servers of a
// fleet are a heap of data without places. Its disk can be lost, its keys can be
// deleted, and a backup of it is old. A map that is put together by hand, or an old one, is
// worse than none: it names a former master, whose last writes are missing, or lacks a
// partition, so that tags are placed a second time.
//
// # The mechanism
//
// While the directory works, the leading agent keeps a copy of the present map on all
// members (package failover), and keepers of snapshots keep one in the archive. When maps are lost,
// [Find] collects the remaining copies, [Found.Store] stores a new map, and agents do the rest:
//
//	addresses, archive ─▶ ask for copies ─▶ ask the members that they name ─┐
//	                           ▲                                            │
//	                           └──────────── new addresses ─────────────────┤
//	                                                                        ▼
//	      the newest map ◀─ servers that joined since, epochs, floors, records of tags
//	           │    ▲
//	           │    └── the directory, asked last: members hold its earlier maps
//	           ▼
//	     a map with an epoch above all that members know and above the clock,
//	     all partitions read-only ─▶ directory ─▶ elections
//
// An agent stores it by itself in a directory that went back. An empty directory is one for
// an operator, see below.
//
// The map names the masters of the time of the copy. So no master is taken from it:
// agents fence all members and elect the one that is furthest, as after the restoration of
// an old directory.
//
// The same procedure changes the directory, from one Redis to another or to etcd: the new
// directory is the empty one.
//
// # Guarantees
//
//   - Find changes nothing.
//   - A directory that has the newest map is not changed, nor is one of another fleet.
//   - If there are two maps of the newest epoch, or the newest one was not made from the map
//     that others have of its parent's epoch, Find fails until an operator chooses one.
//   - Clients go on by themselves if the new directory is at the old address: the epoch
//     is higher than theirs. Until then they only read.
//   - Writes that a replica has confirmed (WaitReplicas) are not lost: a partition whose members
//     do not answer in sufficient number stays read-only until they do.
//   - A map that lacks a partition is not stored if any server or record of a tag that was
//     found shows that there is one. Partitions take tags only after the masters of all
//     others have a copy of a map that names them (package grow).
//   - Moves of tags, additions and changes of members that were in progress go on.
//
// # Limits of its knowledge
//
// Changes after the newest copy: a copy is some seconds old at most while an agent runs,
// and as old as the last agent otherwise. Servers that are in no copy, unless they are
// given. Members that do not answer. [Found.Unknown] names all of it.
//
// The events and the ages of snapshots are gone: they are only in the directory.
//
// # The wrinkle
//
// Nothing here can see whether the old directory is really dead if the new one is empty.
// While it answers, clients and agents there go on by the old map: two sets of agents would
// replace each other's masters. So an operator must say so.
//
// # When not to use the command
//
// If a replica, the append-only file or a backup of the directory is left: start that. Agents
// put the newest map into it.
package recovery
