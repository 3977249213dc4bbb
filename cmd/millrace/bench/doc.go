// Package bench measures Millrace on a server, each figure against a baseline in
// the same run.
//
// # The problem
//
// A rate alone says little: it is that of the machine, of the network and of the
// server. What a structure costs is seen beside what it is made of, such as the bare
// commands without which it cannot be had, called by the same client as often at
// once, from the same machine to the same server, at about the same time.
//
// # The mechanism
//
// A [Figure] has sides: what is measured, and what it is measured against. A round
// runs each side once, in turn, so that a machine whose speed drifts slows all of
// them.
//
//	round 1   side ──▶ clean up ──▶ side ──▶ clean up ──▶ ...
//	round 2   side ──▶ clean up ──▶ side ──▶ clean up ──▶ ...
//	  ...                 │
//	                      ▼
//	Result    the median of each side, the median of the rounds' ratios,
//	          and whether a goal is reached
//
// A side opens its connections and has its scripts compiled before it counts; what
// fails ends it, and is no figure. Its keys have the same hash tags as those of the
// other sides, so that on a Redis Cluster or a fleet all work on the same servers.
//
// # Whose server
//
// Figures are measured on a server that others use, too: under one name, which a
// [Run] draws, and nothing is changed, looked through or removed that is not under
// it. Each side deletes what it wrote, also when it is cancelled or fails. What
// cannot be told apart from the work of others is counted here and not there: the
// commands of an idle reader by a client that counts them, the size of a queue key by
// key. A program that is killed cannot delete; the start of its progress tells the
// name.
//
// # The wrinkle
//
// Client and server often share a machine here, and never in production. Where they
// share two CPUs, the client's half of the work counts as much as the server's, and
// what a structure spares the client shows as well.
//
// What needs servers of its own, or another library to compare with, is not here but
// in the module of the folder bench, which measures these figures, too.
package bench
