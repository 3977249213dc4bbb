// Package snapshot keeps the snapshots of a fleet fresh: one at a time on a node, from
// replicas where possible, with known ages, and fetched into an archive on request.
//
// # The problem
//
// Replicas protect against a lost machine. When all members of a partition are lost, or
// data is deleted by mistake, only a file is left, and writes since its time are lost. Redis writes
// the file by forking: the child writes the memory as it was at that moment, and each page
// that the server changes meanwhile exists twice. One server that forks is slow for some
// milliseconds. If all servers of a machine fork at once, they are slow for a third of a
// second, and may need twice the memory.
//
// A snapshot can also fail unnoticed: the disk is full, or the server was restarted in the
// middle, and LASTSAVE still shows a time, that of the start.
//
// # The mechanism
//
// A [Keeper] goes round the partitions, the one with the oldest snapshot first, as many at
// a time as there are nodes and never two on one.
//
//	            oldest, and older than Interval
//	                       │
//	                       ▼
//	wait ◀─ not its turn ─ node's turn: no other holds it,
//	 ▲                     │            and no server of the node forks
//	 │                     ▼
//	 │                  a member: a replica with all that its master has
//	 │                     │
//	 │                     ▼                       ┌─ fails ─▶ rest, another member next
//	 │                  BGSAVE ─▶ (child writes) ──┤
//	 │                                             └─ done ──▶ fetched, checked, archived
//	 │                                                              │
//	 └───────────────── the directory records when, where, how long ┘
//
// Done means: the server has not been restarted, no child writes, the last save succeeded,
// and its time is not before the second in which this one was requested, a second in which
// the server had not saved yet. The keeper waits for a save that is already running, and
// does not count it, since its data is older.
//
// The directory has the results, with times by the agents' clocks: run NTP. So all processes see the same
// ages and failures, and a new keeper continues where another one ended: after a failure every keeper
// leaves the partition alone for a while, and then tries the next member. [Read] reads them.
//
// With an archive the keeper requests the snapshot as a new replica does. The server saves
// to its disk as by BGSAVE and then sends the file: one fork for both, and no access to the
// server's disk. A file is in the archive when it is complete, synced to disk, its checksum
// is right, and it has its name: 20260314T150926.535Z-FLEET-PARTITION.rdb. Any redis-server
// starts on it. The archive also has a copy of the fleet's map, FLEET.map, from which package
// recovery rebuilds a directory that has lost its data.
//
// A member gets an archived file back as it gave it: by replication. [Load] is the master from
// which the member copies, once, with a password of its own; [Examine] reads beforehand of which
// partition the file is and how new its data is, without loading it.
//
// # Guarantees
//
//   - No two snapshots run at once on a node, whether by Run, by Now or by keepers of several
//     processes, and none beside the copy that a failover agent starts for a replica.
//   - An age is never too young: it counts from before the member was asked, and the replica
//     had all that its master had then.
//   - A member that lost its data, or follows another master, is not saved.
//   - A file in the archive that ends in .rdb is a complete snapshot. The newest Keep of each
//     partition stay, and always the last one.
//
// # The wrinkle
//
// If a keeper loses the directory for longer than its turn lasts, while its server saves,
// others notice that only by the server's INFO.
//
// A server with save points refuses writes after a failed save: run members with save "".
// A restarted member reads the snapshot in its folder; as part of a fleet it is fenced and
// then copies newer data.
//
// A master that never had a replica begins a new history when it sends its first snapshot,
// as it does with its first replica. The failover agent treats that as a restart and raises
// the partition's epoch.
//
// # When not to use it
//
// Where no write may be lost: use replicas with [fleet.Config].WaitReplicas, or an
// append-only file. For one server: use save points and copy the file.
//
// [fleet.Config]: https://pkg.go.dev/github.com/millrace/millrace/fleet#Config
package snapshot
