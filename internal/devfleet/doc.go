// Package devfleet runs a whole fleet on this machine: real redis-server processes, on
// nodes that are only names and folders.
//
// # The problem
//
// A fleet is interesting when some of its servers are late, dead, paused or new. Tests
// and demos need a fleet from one call, its processes to kill and to pause,
// and no processes or files left behind.
//
// # The mechanism
//
// [Start] starts all servers at once, each on a free port of 127.0.0.1, on nodes that
// package plan chooses, and makes a fleet of them:
//
//	Dir ─┬─ directory                  the map of the fleet, kept on disk
//	     ├─ node-0 ─┬─ partition-0     master        each with its server.log
//	     │          └─ partition-2     replica
//	     ├─ node-1 ─┬─ ...
//
// Data servers start boot-fenced: as replicas of an address where no server listens.
// They take no writes and serve no reads. A server that was killed and restarted is
// fenced again, and empty: only the directory writes to disk, and snapshots that the
// caller takes.
//
//	           Start           grow.Init, grow.Add
//	(no process) ──▶ boot-fenced ──▶ master or replica
//	                    ▲                  │ Proc.Kill
//	                    └──────────────────┘
//	             Proc.Restart, Config.RestartAfter
//
// An agent (package fleet/agent) gives restarted servers their roles. Callers run one if
// they need it.
//
// # Guarantees
//
//   - When Start or AddPartition fails, its servers have ended and its folders are gone,
//     except for servers that the directory lists.
//   - Stop ends all servers, paused or not. On Linux they also end with this process.
//
// # The wrinkle
//
// Nodes are not machines: they share CPUs, memory and a network that never fails. Kill
// all servers of a node to lose it, pause them to cut it off. Figures measured on such a
// fleet say little about a real one.
//
// # When not to use it
//
// Never for data that matters. For one server, a cluster or Sentinels use package
// redistest.
package devfleet
