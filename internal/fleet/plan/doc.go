// Package plan does the sums for a fleet before it is built: how many servers a
// machine runs, how many partitions there are, how many users fit, and which
// member goes on which machine. It is arithmetic: it asks no server.
//
// # The problem
//
// A redis-server has one thread for commands and some memory, and a machine has
// many threads and much memory. So a machine runs many servers, called instances
// here. Three questions must be answered before the first one starts, because the
// answers are hard to change: into how many partitions the data is cut, how much
// memory an instance may take, and where the members of a partition are.
//
// A partition is limited twice. It is memory-bound if its memory is full while its
// thread still has time, and thread-bound if its thread is busy while there is
// still memory. More machines help either only if there are instances to put on
// them: a partition that is thread-bound is no faster on a machine of its own, and
// a machine with fewer instances than threads has threads that nobody uses.
//
// # The mechanism
//
// [Make] gives each hardware thread one instance. If machines are to be added by
// moving instances to them and no partition is to be added, there must be more
// instances than threads at first, by as many times as the fleet may grow:
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
// The memory of a node is not divided by its instances alone. A snapshot is
// written by a copy of the process, and what is changed meanwhile exists twice, in
// the worst case all of it. If one instance of a node takes a snapshot at a time,
// there must be room for one more:
//
//	memory of an instance  =  memory of the node / (its instances + 1)
//	users of a partition   =  memory of an instance / what a user needs at most
//
// 14 nodes of 96 GB with 160 partitions in two copies have 320 instances, at most
// 23 of them on a node, and each gets a 24th of 96 GB, which is 4 GB.
//
// [Place] says which node each member is on: every node carries equally many
// masters and equally many replicas, no node two members of one partition, and
// what a lost node did is taken over by all the others and not by its neighbour.
// [PlaceMore] does so for partitions that are added later, and moves nothing.
//
// # The wrinkle
//
// More instances than threads cost something until the nodes are added: 32 servers
// take turns on 16 threads, and each has its own overhead and its own connection
// to every client. A fleet can also be grown by partitions, and package ring
// explains how. The factor is for those who want to add machines and nothing else.
//
// # When not to trust it
//
//   - It knows nothing of load. Whether memory or the thread is nearer its limit
//     can only be measured, on a partition that works.
//   - It takes all users for equally large, and the hash for perfectly even. Of 160
//     partitions the fullest has 4% more users than the average, and users differ
//     by more than that.
//   - What a user needs is what it takes in Redis, with keys, overhead and
//     fragmentation, when it is at its largest; measure that, too.
//   - A fleet sends new tags on when a partition is filled to a part of its memory,
//     80% unless told otherwise: the rest is for its users to grow. Plan with what a
//     user needs at most, or take a fifth off.
//   - The memory of a node is what is left for Redis, without the system, its
//     buffers for the network and for replicas, and its page cache.
//   - Several snapshots on a node at a time need several times the room.
//
// # When not to use it
//
// One server that has room for everything needs no plan. Redis Cluster moves data
// to machines that are added, and needs no growth factor.
//
// The sums are those of Meshin, whose fleet had the 14 nodes above.
package plan
