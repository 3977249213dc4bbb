// Package millrace turns the Redis a team already runs into a system that distributes work.
//
// Every structure is a package of its own, takes a rueidis.Client, and works on one server, behind
// Sentinel, on Redis Cluster and on a fleet:
//
//	fairqueue  queues for many tenants: a flood of one does not delay the others
//	ick        dirty lists: repeated writes fold into one mark; a change during the
//	           processing of its batch is not lost; a channel has several consumers
//	expiry     hashes whose fields expire one by one
//	pinned     values that a full server does not evict before their deadline
//	fetch      expensive values, computed once for all callers
//	tracker    which identifiers have work queued in a database, answered from memory
//	lease      locks with a deadline, a fence, and a context that ends with them
//	scatter    counters and lists on many servers: a write goes to one, a read merges all
//
// Package dial opens a client by URL, with the options that structures want.
//
// Package steal runs the upkeep that structures offer in idle moments of workers, and package
// upkeep installs all of it with one call. Package fleet makes one client of many Redis servers.
//
// This package has the types that all of them share: [Error] with its code and hint, [Job] and [Enlister]
// for upkeep, and the hooks with which a program observes structures.
//
// # What every structure promises
//
//   - All keys of one structure share a Redis Cluster slot.
//   - A script checks everything before its first write: it applies completely or not at all.
//   - Time is the server's.
//   - Every call may be repeated after a lost reply, and the library repeats it within the
//     caller's context.
//   - What drains keeps working when Redis is full.
//   - Nothing depends on a daemon: calls do the due work of their own structure.
package millrace
