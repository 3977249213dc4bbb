// Package millrace turns the Redis a team already runs into a system that
// distributes work.
//
// It joins five designs that each ran in production somewhere and were never
// one piece of software. Every structure is a package of its own, takes a
// rueidis.Client that the caller made, and works alike on one server, behind
// Sentinel, on Redis Cluster and on a fleet:
//
//	ick    dirty lists: repeated writes fold into one mark, marks are handed
//	       out in batches, and a mark that is renewed while its batch is being
//	       worked on is never forgotten; a channel of them is for many consumers
//	fairqueue
//	       queues for many tenants, in which one that floods does not delay the
//	       others
//	expiry hashes whose fields expire one by one
//	pinned values that a full server does not evict before their deadline
//	fetch  an expensive value, computed once and not by a herd
//	tracker
//	       which identifiers have work queued in a database, answered from memory
//	lease  locks that stay until their time, even when Redis evicts, and whose
//	       holder knows when it is over
//
// Package steal, which knows nothing of Redis, has the idle moments of workers
// do the upkeep that structures offer, and package upkeep installs all of it with
// one call.
//
// Package fleet makes many Redis servers one such client: users' data is spread
// over partitions that are added while all is in use, and no data moves.
//
// This package holds only the few words that all rooms share: [Error] with its
// code and hint, [Job] and [Enlister] for upkeep, and the hooks through which
// a program watches what the structures do. It imports nothing but the
// standard library.
//
// # What every structure promises
//
//   - All keys of one structure share a Redis Cluster slot.
//   - A script checks everything before its first write: it applies wholly or
//     not at all.
//   - Time is the server's.
//   - Every call may be repeated after a lost reply without harm, and the
//     library itself repeats it within the caller's context.
//   - What drains keeps working when Redis is full.
//   - Nothing depends on a daemon: calls do the due work of their own
//     structure.
package millrace
