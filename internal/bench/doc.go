// Package bench measures Millrace on a server, each figure against a baseline in
// the same run.
//
// # The problem
//
// A rate alone says little: it depends on the machine, the network and the server. The cost
// of a structure shows beside the cost of its parts, such as the bare commands: called by
// the same client, as often at once, from the same machine to the same server, at about
// the same time.
//
// # The mechanism
//
// A [Figure] has sides: the measured one, and others to compare it with. A round runs each
// side once, in turn, so that a machine whose speed drifts slows all of them.
//
//	round 1   side ──▶ clean up ──▶ side ──▶ clean up ──▶ ...
//	round 2   side ──▶ clean up ──▶ side ──▶ clean up ──▶ ...
//	  ...                 │
//	                      ▼
//	Result    the median of each side, the median of the rounds' ratios,
//	          and whether a goal is reached
//
// A side opens its connections and loads its scripts before it counts. A side that fails
// ends the run. Its keys have the same hash tags as those of the other sides, so that on a
// Redis Cluster or a fleet all sides use the same servers.
//
// # Whose server
//
// [Figures] can run on a server in use: all keys are under one random name, and no other
// key is read or changed. Each side deletes its keys, also when it is cancelled or fails.
// A killed program cannot delete; the start of its progress shows the name. The module bench
// has figures that start servers of their own.
//
// # The wrinkle
//
// Client and server often share a machine here, and rarely in production. Where they share
// two CPUs, the client's work counts as much as the server's.
package bench
