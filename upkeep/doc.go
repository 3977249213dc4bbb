// Package upkeep installs in a recruiter, with one call, all upkeep of Millrace
// that is for a Redis as a whole, and tells what the recruiters of all processes did.
//
//	recruiter := steal.New(steal.Config{})
//	if err := upkeep.Install(recruiter, client); err != nil { ... }
//	go recruiter.Run(ctx)
//
// Structures need no upkeep to be correct: a call does what is due in its own
// structure. Upkeep makes it timely where nobody calls, and takes away what
// nobody will ask for again.
//
// # The rates
//
// A rate is a chance at each moment that the program gives away; see package
// steal for the arithmetic. Those here suit a program with a hundred to ten
// thousand such moments a second, all processes together: at a thousand, one
// slice in half a second goes round the Icks for parked members and one round the
// queues, and one in a second for each of the others. A slice visits up to 50 structures,
// all at the same time. Quieter programs have the recruiter's floor, which runs each job
// every ten seconds in every process. [steal.Recruiter.SetRate] changes a rate after
// Install:
//
//	ick.retry        0.002   parked members whose delay is over
//	ick.tidy         0.001   dead consumers of channels
//	lease.Jobs       0.001   abandoned leases
//	fairqueue.Jobs   0.002   due messages and messages of dead readers
//	expiry.Jobs      0.001   what other programs did to hashes
//	pinned.Jobs      0.001   what other programs did to pinned values
//	registry.tidy    0.0005  entries of structures that do not exist any more
//
// # What they go round
//
// A program enters each structure that it uses in a registry, at the first use and then every
// few minutes, in the background. The jobs go round the registry, from a random place on,
// and leases have an index by time: so a round takes as long as there are structures, and
// not as there are keys in the same Redis. What does not answer, a structure or a whole
// node, is left alone for a while and keeps nobody else waiting. The repairs of expiry are
// the exception: they look for what nobody told them of, and go round all keys.
//
// A structure that nobody has used since it was lost from the registry is not looked
// after; `millrace doctor --scan` finds it. docs/WIRE.md says how programs in other
// languages enter theirs.
//
// # What stays with its owner
//
// Some jobs know where their work is, from an index or from a source that only
// the program has. Whoever opens the structure installs them, at rates that suit
// what it is used for; package steal and the structure's own documentation have
// the arithmetic.
//
//	hashes.Jobs()                             expired fields of one namespace, and whether servers may evict any
//	keys.Jobs()                               the same of pinned values
//	cache.Jobs()                              values of one cache of package fetch
//	tracker.Jobs()                            one tracker and its table
//
// # What all processes did
//
// A recruiter counts in its own process. [Publish] adds that to totals in Redis, for
// views of all processes at once; [ReadTotals] reads them.
//
//	go upkeep.Publish(ctx, recruiter, client, upkeep.PublishConfig{})
//
//	recruiter ──┐ what has come since, every 10 s
//	recruiter ──┼───────▶ totals by the job ───────▶ dashboard
//	recruiter ──┘
//
// A flush is one script call. It is added wholly or not at all, and once, though its
// reply be lost: it is sent again under its request id, before the next one. So
// recruited = worked + idle + aborted holds in the totals at every moment, as it does
// in each recruiter. What cannot be added, as when the server is full or away, waits in
// the process.
//
// Nothing but statistics rests on the totals, and they are no better than that. A
// process that is killed takes along what it counted since its last flush. One that
// alone is cut off for more than a minute, with a flush on its way, may add that flush
// twice. And the totals have the first 100 jobs that were published, so jobs are named
// by their kind, and not by what they work on.
//
// Totals are for people; what a monitoring system scrapes is in each process, and package
// metrics shows it.
package upkeep
