// Package upkeep installs all upkeep of a whole Redis in a recruiter, with one call, and
// adds up the counts of the recruiters of all processes.
//
//	recruiter := steal.New(steal.Config{})
//	if err := upkeep.Install(recruiter, client); err != nil { ... }
//	go recruiter.Run(ctx)
//
// Structures need no upkeep to be correct: each call does the due work in its own structure.
// Upkeep makes it timely in structures without calls, and removes unneeded data.
//
// # Rates
//
// A rate is a chance at each idle moment of the program; package steal explains the
// arithmetic. The rates here suit a hundred to ten thousand moments a second in all
// processes together. At a thousand, the jobs of parked members and of queues each run a
// slice every half second, and the others one a second. A slice visits up to 50 structures
// at the same time. In quieter programs, the recruiter's floor runs each job every ten
// seconds in each process. [steal.Recruiter.SetRate] changes a rate:
//
//	ick.retry        0.002   parked members whose delay is over
//	ick.tidy         0.001   dead consumers of channels
//	lease.Jobs       0.001   abandoned leases
//	fairqueue.Jobs   0.002   due messages and messages of dead readers
//	expiry.Jobs      0.001   changes that other programs made to hashes
//	pinned.Jobs      0.001   changes that other programs made to pinned values
//	registry.tidy    0.0005  entries of structures that no longer exist
//
// # How jobs find structures
//
// A program registers each structure at its first use, and again every ten seconds. Jobs
// visit the registry from a random place on, and leases by an index of deadlines. So a round
// takes time in proportion to the structures, not to the keys. A structure or node that does
// not answer is skipped for a while and delays no other. Only the repairs of hashes and
// pinned values visit all keys: they look for changes by programs that do not use the
// library.
//
// A structure that was lost from the registry and is not used gets no upkeep;
// `millrace doctor --scan` finds it. docs/WIRE.md explains how programs in other languages
// register.
//
// # Jobs of one structure
//
// Some jobs need an index or a source that only the program has. Install them where you open
// the structure:
//
//	hashes.Jobs()    expired fields of one namespace, and whether servers may evict any
//	keys.Jobs()      the same for pinned values
//	cache.Jobs()     values of one cache of package fetch
//	tracker.Jobs()   one tracker and its table
//
// # Totals of all processes
//
// A recruiter counts in its own process. [Publish] adds its counts to totals in Redis, and
// [ReadTotals] reads them.
//
//	go upkeep.Publish(ctx, recruiter, client, upkeep.PublishConfig{})
//
//	recruiter ──┐ new counts, every 10 s
//	recruiter ──┼───────▶ totals by job ───────▶ dashboard
//	recruiter ──┘
//
// A flush is one script call, and is applied once: after a lost reply it is sent again under
// its request id, before the next one. So recruited = worked + idle + aborted always holds in
// the totals. Counts that cannot be added, as when the server is full or away, stay in the
// process.
//
// The totals are statistics. A killed process loses its counts since the last flush. A
// process that is cut off for more than a minute during a flush may add that flush twice.
// There are at most 100 jobs, the first that were published, so name jobs by their kind, not
// for the items they work on. A monitoring system should scrape each process; see package metrics.
package upkeep
