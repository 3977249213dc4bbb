// Package doctor examines a Redis, or a fleet, and reports whether it is fit for
// work: settings that break a promise of Millrace, those that will cause trouble one
// day, and the remedy for each.
//
//	report, err := doctor.Examine(ctx, client, doctor.Config{})
//	fmt.Println(report.Verdict())
//
// # The problem
//
// A Redis that was set up as a cache answers every call, and all tests pass. The
// difference to one that keeps work shows when memory is full or the server restarts:
// then work is lost without an error. Defaults, and the settings of managed services,
// often promise less than a structure needs.
//
// # Requirements
//
//	check        the server ...                       because otherwise
//	reach        answers                              nothing works
//	version      is Redis 6.2 or later, or Valkey     scripts use commands that it lacks
//	eviction     never evicts keys                    a mark, a queue or a lease is lost
//	memory       has a limit, and is below it         the machine kills it, or adds are refused
//	persistence  keeps an append-only file            a restart loses the work since a snapshot
//	replicas     is a master, with replicas in step   writes are refused, or there is no copy
//	scripts      has Lua, and lets the user run it    every call of Millrace is a script
//	clock        has the same time as this machine    scores that producers set are off
//	slowlog      ran no slow command in an hour       all other commands waited for it
//	load         has room on its one thread           calls wait for each other
//	connections  rejects none, and few are new        clients fail, or connecting costs most
//	cpu          shares its CPU with no other server  each waits for the other
//
// A fleet as a whole has the checks of `millrace fleet check`, but for the look-up of tags:
// whether its members and its directory are as a fleet assumes.
//
// A finding is critical only if Millrace cannot keep a promise, as with a policy that evicts
// any key. A missing replica, or losing the last second in a crash, may be a choice:
// those are notes and warnings.
//
// # How it works
//
// It sends INFO, CONFIG GET save, SLOWLOG GET and TIME, and runs a script that does nothing.
// A second after the first INFO it asks for CPU time and connections again; the other checks run
// meanwhile. Of the slow log it reports names of commands, never arguments. Where a server evicts
// any key, it counts the registered structures that would lose work. It
// writes no key, so it can examine a server in use. Where a server refuses to answer,
// as behind an ACL or at a managed service, the finding is a note with the code unknown,
// never a guess. The CPU check asks the kernel, so it covers only servers on
// this host, on Linux.
//
// # The wrinkle
//
// A report describes one moment, and the load one second: repeat it with millrace doctor --watch. The clock is compared over the network, within half a
// round trip.
//
// # When not to use it
//
// To monitor a server: metrics and the dashboard show changes. The doctor is for the
// first day, for the day after a change of settings, and for scripts that must not roll
// out onto an unfit server.
package doctor
