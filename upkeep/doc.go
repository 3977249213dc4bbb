// Package upkeep installs in a recruiter, with one call, all upkeep of Millrace
// that is for a Redis as a whole.
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
// slice in half a second goes round the keys for parked members and one for
// queues, and one in a second for each of the others. A slice looks at 100 to 200
// keys, which costs the server a tenth of a millisecond. Quieter programs have
// the recruiter's floor, which runs each job every ten seconds in every process. A
// program that wants other rates installs the jobs by itself:
//
//	ick.RetryJob(client)            0.002   parked members whose rest is over
//	ick.TidyJob(client)             0.001   consumers of channels that died
//	locker.ReapJob()                0.001   leases that were abandoned
//	fairqueue.TendJob(client)       0.002   messages whose time or whose reader's time is over
//	expiry.RepairHashesJob(client)  0.001   what other programs did to hashes
//	expiry.RepairKeysJob(client)    0.001   what other programs did to deterministic values
//
// # What stays with its owner
//
// Some jobs know where their work is, from an index or from a source that only
// the program has. Whoever opens the structure installs them, at rates that suit
// what it is used for; package steal and the structure's own documentation have
// the arithmetic.
//
//	hashes.ReapJob()                          expired fields of one namespace
//	keys.ReapJob(), keys.PolicyJob()          overdue values of one namespace, and whether they are safe
//	cache.ReapJob()                           values of one cache of package fetch
//	tracker.AddJob(), tracker.VerifyJob()     one tracker and its table
//
// # When not to use it
//
// These jobs look at all keys of a Redis, a slice at a time, because what they
// look after has no index. On one that is shared with a hundred million keys of
// others, a round takes long; let it, or leave the upkeep to the calls.
package upkeep
