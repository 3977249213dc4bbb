// Package registry keeps the names of all structures, so that finding them needs no pass
// over all keys.
//
// # The problem
//
// Lists, upkeep and overviews need the names of all queues, Icks and so on. A SCAN finds
// them by their keys and costs as much as there are keys: with a hundred million keys of
// other programs a round takes days. It also stops at the first node that does not answer.
//
// # The mechanism
//
// A process that uses a structure enters it: one field in one of 16 hashes.
//
//	mr:registry:{S}    field "KIND NAME" -> when it was last entered, in Unix milliseconds
//	                   S = CRC-32 (IEEE) of "KIND NAME", modulo 16
//
// The structure has an [Entry], and touches it after each call that shows that the
// structure exists. That costs a nanosecond or two, except for the first time and then
// every ten seconds, when the field is written in the background:
//
//	Touch ─ entered in this period? ── yes ─▶ nothing
//	            │ no
//	            ▼
//	  waiting fields, by shard ──▶ one HSET per shard, one at a time
//	            ▲                        │ no answer, or full
//	            └──── a pause ◀──────────┘ five times; then in the next period
//
// Readers go through the 16 hashes, page by page: [List] for people, a [Visitor] for
// upkeep. Both take time in proportion to the structures, not to the keys of the server.
//
// Names that come by the million, those of leases, are not entered here. They have an
// index by the time of their next check, which upkeep empties as they end: see [Due].
//
// # Guarantees
//
//   - Entering fails no call and delays none: not on a full server, not with a silent node,
//     not without permission. Missing permission is logged once.
//   - An entry is removed only when a server answers that the structure's key is missing,
//     never by age. The abandoned queue is the one that operators must see.
//   - With a node that does not answer, a list yields the names of the other nodes, and then
//     an error with the number of missing shards.
//   - A structure that does not answer or takes long delays no visits to the others.
//   - A process sees its own entries at once, in lists and visitors.
//
// # The wrinkle
//
// All of it is best effort. A registry that was lost, by FLUSHALL or by a failover, is
// complete again when each structure was used again, ten seconds later; `millrace doctor
// --scan` finds structures that are not used any more.
//
// A structure may be created at the moment in which upkeep finds it missing. So an entry
// stays for its first minute, and is removed only if it was not entered again since it was
// read. One case remains: a structure that is deleted, and created again by a process that
// entered it shortly before, is missing until that process's next period, at most ten
// seconds later.
package registry
