// Package doctor examines a Redis, or a fleet of them, and says whether it is fit
// for work: what will break a promise of Millrace's, what will hurt one day, and
// what to do about each.
//
//	report := doctor.Examine(ctx, client)
//	fmt.Println(report.Verdict())
//
// # The problem
//
// A Redis that was set up as a cache looks like one that keeps work. Both answer
// every call, and all tests pass. The difference shows on the day on which memory
// is full, or the server restarts, and then what was to be kept is gone without an
// error. What a structure promises rests on what its server promises, and settings
// by default, and those of managed services, often promise less.
//
// # What is fit
//
//	check        the server ...                       because otherwise
//	reach        answers                              nothing works
//	version      is Redis 6.2 or later, or Valkey     scripts use commands that it lacks
//	eviction     never throws keys away               a dirty mark, a queue, a lease is gone
//	memory       has a limit, and is below it         the machine kills it; or adds are refused
//	persistence  keeps an append-only file            a restart loses the work since a snapshot
//	replicas     is a master, with replicas in step   writes are refused; its machine is all there is
//	scripts      loads scripts and runs them          every call of Millrace is one
//	clock        tells the time that we have          scores that producers set are off
//	cpu          shares its CPU with no other server  each is as slow as both together
//
// A fleet has four more: its state, which is full; its members, which are all up;
// its nodes, none of which has two members of a partition; and hints, of members
// that its clients cannot reach.
//
// A finding is a [Fail] only where Millrace cannot keep a promise that it makes,
// such as with a policy that evicts any key. Having no replica, or losing the last
// second in a crash, is a choice that a team may have made: a [Note] or a [Warn].
//
// # How it looks
//
// It asks what a server says of itself (INFO, CONFIG GET save, TIME), and runs a
// script that does nothing. It writes no key, and can look at a server in use.
// Where a server does not tell, as behind an ACL or at a managed service, the
// finding is a note of the value "unknown". It is never a guess.
//
// Which CPUs a server may use is not among what it says. The kernel of this host
// knows, so that check covers the servers that run here, on Linux.
//
// # The wrinkle
//
// A look is one moment. A replica that is in step now was perhaps not when it
// mattered, and memory fills up. The clock is compared over the network, and known
// no better than within half a round trip.
//
// # When not to use it
//
// For watching a server: its metrics and the dashboard show what changes. The
// doctor is for the first day, for the day after a change of settings, and for
// scripts that refuse to roll out onto a server that is not fit.
package doctor
