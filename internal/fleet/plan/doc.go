// Package plan chooses the machine of each member of a fleet before it is built. It asks no server.
//
// # The problem
//
// A redis-server uses one thread for commands, and a machine has many, so it runs many servers.
// Which of them are a partition is hard to change later: a lost machine must take at most one member
// of each partition, and leave its work to all others alike.
//
// # The mechanism
//
// [Place] chooses the node of each member: each node has equally many masters and replicas, no node
// has two members of a partition, and all other nodes share the work of a lost one:
//
//	        partition 0   1   2   3   4   5
//	node a            M       r   M   r
//	node b            r   M           M   r
//	node c                r   M   r       M
//
// [PlaceMore] does so for partitions that are added, and moves nothing. [PlaceServers] does so on
// machines that an operator has listed in a file, read by [ParseMachines], and numbers the ports of
// each machine's servers from one on. [Placement.Table] writes that as the file from which package
// grow makes a fleet. [Spread.Even] evens out masters when nodes come and go.
//
// # The wrinkle
//
// How many partitions there are is the operator's choice. With one server a thread, all threads have
// work; more machines help only if there are servers to move to them, so a fleet that shall grow to
// twice the machines without more partitions has twice as many from the start. A snapshot is written
// by a copy of the process, in the worst case with all of its data: with one at a time on a machine,
// a server may have the machine's memory divided by one more than its servers. A user, or whatever a
// tag is, must fit; a partition that is 80% full sends new tags on.
//
// # When not to use it
//
// One server that has room for everything needs no plan. Redis Cluster moves data to
// machines that are added, and needs no room to grow.
package plan
