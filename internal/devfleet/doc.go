// Package devfleet runs a whole fleet on this machine: real redis-server
// processes, on nodes that are only names and folders.
//
// # The problem
//
// A fleet is many servers on many machines, and what is interesting about it
// happens when some of them are late, dead, paused or new. To try that out, to
// show it and to test it, one command or one call should bring up a fleet, give
// the processes into the caller's hands to be killed and paused, and leave nothing
// behind.
//
// # The mechanism
//
// [Start] starts all servers at once, each on a free port of 127.0.0.1, placed on
// nodes by package plan, and has package fleet make a fleet of them:
//
//	Dir ─┬─ directory                  the map of the fleet, kept on disk
//	     ├─ node-0 ─┬─ partition-0     master        each with its server.log
//	     │          └─ partition-2     replica
//	     ├─ node-1 ─┬─ ...
//
// Servers begin boot-fenced: as replicas of an address where nobody listens. Such
// a server takes no writes, may not be read and gives no data away until it is told
// what it is. Package fleet shuts each one down once to see that; it is started again. One
// that was killed and restarted is fenced again, and empty, as a machine without a
// disk would be: nothing of the data is written to disk, the directory excepted,
// unless somebody has a snapshot taken. Then that is what it begins with.
//
//	           Start           grow.Init, grow.Add
//	(no process) ──▶ boot-fenced ──▶ master or replica
//	                    ▲                  │ Proc.Kill
//	                    └──────────────────┘
//	             Proc.Restart, Config.RestartAfter
//
// Nobody here says what a restarted server is to be. That is for the agent of package
// failover, which whoever starts a fleet may run beside it.
//
// With [Config.Pin] each server keeps to one CPU, and its background threads and
// the process that writes a snapshot to another. In one measurement one request in
// a thousand took longer than 7 milliseconds while a snapshot was written, and
// longer than 44 without it.
//
// # Guarantees
//
//   - When Start or AddPartition fails, what it started has ended, and the folders
//     that it made are gone. One exception: servers that the directory knows.
//   - Stop ends what was started here, paused or not, and no other process. On
//     Linux the servers end with this process, however that ends.
//   - A folder in which there are files of a fleet is refused.
//
// # The wrinkle
//
// Nodes are not machines: they share CPUs, memory and a network that never fails.
// A node is lost when all its servers are killed, and cut off when they are
// paused. Numbers measured on such a fleet say little about a real one.
//
// # When not to use it
//
// Never for data that matters. Tests of one server, a cluster or Sentinels find
// what they need in package redistest. Tests in package fleet itself, since this
// package imports fleet, must be in package fleet_test.
package devfleet
