// Package plan computes the size of a fleet before it is built: how many servers a
// machine runs, how many partitions there are, how many users fit, and which member goes
// to which machine. It asks no server.
//
// # The problem
//
// A redis-server uses one thread for commands, and a machine has many. So a machine runs
// many servers, called instances here. Three decisions are hard to change later: the
// number of partitions, the memory of an instance, and the machines of a partition's
// members.
//
// A partition is memory-bound or thread-bound. More machines help only if there are
// instances to move to them: an instance is no faster on a machine of its own, and
// threads without an instance are idle.
//
// # The mechanism
//
// [Make] gives each hardware thread one instance. If the fleet should grow by moving
// instances to more machines, without more partitions, it needs more instances from the
// start, by the factor of the growth:
//
//	instances a node  =  threads * growth
//	partitions        =  nodes * instances a node / copies
//
//	16 threads, growth 2          twice the nodes
//	┌──────────────────────┐      ┌──────────────────────┐ ┌──────────────────────┐
//	│ 32 instances         │ ───▶ │ 16 instances         │ │ 16 instances         │
//	│ 1/33 of the memory   │      │ 1/17 of the memory   │ │ 1/17 of the memory   │
//	└──────────────────────┘      └──────────────────────┘ └──────────────────────┘
//
// A snapshot is written by a copy of the process. Data that changes meanwhile exists
// twice, in the worst case all of it. With one snapshot at a time on a node there must be
// room for one more instance:
//
//	memory of an instance  =  memory of the node / (its instances + 1)
//	users of a partition   =  memory of an instance / a user's need at most
//
// 14 nodes of 96 GB with 160 partitions in two copies have 320 instances, at most 23 on a
// node, and each gets a 24th of 96 GB, which is 4 GB.
//
// [Place] chooses the node of each member: each node has equally many masters and
// replicas, no node has two members of a partition, and all other nodes share the work of
// a lost one. [PlaceMore] does so for partitions that are added, and moves nothing.
// [PlaceServers] does so on machines that an operator has listed in a file, read by
// [ParseMachines], and numbers the ports of each machine's servers from one on. [Plan.Table] writes
// that as the file from which package grow makes a fleet.
//
// # The wrinkle
//
// More instances than threads cost something until the nodes are added: 32 servers share
// 16 threads, and each has its own overhead and its own connection to every client. A
// fleet can also grow by partitions (package ring).
//
// # Limits of the calculation
//
//   - Load: only a measurement shows whether memory or the thread is nearer its limit.
//   - Differences between users, and between partitions: of 160 partitions the fullest has
//     4% more users than the average.
//   - Overhead: measure the memory that a user needs in Redis at its largest, with keys and
//     fragmentation. Subtract from a node's memory the need of the system, network buffers,
//     replicas and the page cache.
//   - The limit at which partitions forward new tags, 80% by default: plan with a user's
//     need at most, or subtract a fifth.
//
// # When not to use it
//
// One server that has room for everything needs no plan. Redis Cluster moves data to
// machines that are added, and needs no growth factor.
//
// The arithmetic is that of Meshin, whose fleet had the 14 nodes above.
package plan
