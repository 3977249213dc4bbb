// Package snapshot keeps the snapshots of a fleet fresh: one at a time on a node,
// from replicas where there are any, with the age of each known, and fetched into
// an archive if that is wished.
//
// # The problem
//
// Replicas are for a machine that dies. When all members of a partition are lost,
// or somebody deletes what he should not have, only a file is left, and how much is
// lost is how old that file is. Redis writes it by forking: the child writes what
// the memory was at that moment, and each page that the server changes meanwhile is
// there twice. One server that does so is late for some milliseconds. All servers of
// a machine that do so at the same time are late for a third of a second, and may
// need twice the memory.
//
// A snapshot can also fail and nobody notices: the disk is full, the server was
// restarted in the middle, and LASTSAVE tells a time all the same, that of the start.
//
// # The mechanism
//
// A [Keeper] goes round the partitions, the one whose newest snapshot is oldest
// first, as many at a time as there are nodes and never two on one.
//
//	            oldest, and older than Interval
//	                       │
//	                       ▼
//	wait ◀─ not its turn ─ node's turn: it has nobody else's,
//	 ▲                     │            and no server of the node forks
//	 │                     ▼
//	 │                  a member: a replica that has what its master has
//	 │                     │
//	 │                     ▼                       ┌─ fails ─▶ rest, another member next
//	 │                  BGSAVE ─▶ (child writes) ──┤
//	 │                                             └─ done ──▶ fetched, checked, archived
//	 │                                                              │
//	 └───────────────── the directory knows: when, where, how long ─┘
//
// Done is what the server says is done: it has not been restarted, no child writes,
// the last one went well, and the time of the last save is not before the second in
// which this one was asked for. That second is one in which it had not saved yet. A
// save that was under way already is waited for and not taken for one's own, since
// its data is older.
//
// What is known of each partition is in the directory, with times by its clock, so
// that all processes see the same ages and a new keeper goes on where another one
// ended. [Read] reads it.
//
// With an archive the keeper asks for the snapshot as a new replica does. The server
// then saves to its disk as by BGSAVE, and hands out the file: one fork for both, and
// no need to read the server's disk. A file is in the archive when it is all there,
// is on disk, has the checksum that it should have, and was given its name:
// 20260314T150926.535Z-FLEET-PARTITION.rdb. Any redis-server starts on it.
//
// # Guarantees
//
//   - No two snapshots at once on a node, whoever asks for them: a Run, a Now, keepers
//     of several processes; and none beside the copy that a failover agent has a master
//     make for a replica.
//   - An age is never too young: it counts from before the member was asked, and a
//     replica had all that its master had then.
//   - A member that lost its data, or follows another master, is not saved.
//   - What is called .rdb in the archive is a whole snapshot. The newest Keep of each
//     partition stay, and the last one always.
//
// # The wrinkle
//
// A keeper that is cut off from the directory for longer than its turn lasts, while
// its server saves, is known to the others by that server's INFO only.
//
// A failed save makes a server that has save points refuse writes: run members with
// save "" and let the keeper do it. A member that is restarted reads the snapshot in
// its folder; as part of a fleet it is fenced and then given what is new.
//
// A master that never had a replica begins a new history when it hands out its first
// snapshot, as it does with its first replica. The failover agent takes that for a
// restart and raises the partition's epoch.
//
// # When not to use it
//
// Where no write may be lost: that is for replicas with [fleet.Config].WaitReplicas,
// or an append-only file. For one server: save points and a copy of the file do.
//
// [fleet.Config]: https://pkg.go.dev/github.com/millrace/millrace/fleet#Config
package snapshot
