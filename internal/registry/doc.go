// Package registry knows which structures there are, so that nobody has to look
// through all keys to find them.
//
// # The problem
//
// Lists, upkeep and overviews need the names of all queues, Icks and so on. A SCAN
// finds them by their keys, and costs as much as there are keys: on a Redis that has
// a hundred million keys of others, a round takes days. It also stops at the first
// node that does not answer.
//
// # The mechanism
//
// A process that uses a structure enters it: one field in one of 16 hashes.
//
//	mr:registry:{S}    field "KIND NAME" -> when it was last entered, in Unix milliseconds
//	                   S = CRC-32 (IEEE) of "KIND NAME", modulo 16
//
// The structure has an [Entry], and touches it after each call that shows that the
// structure is in use. That costs a nanosecond or two, but the first time and then
// every few minutes, when the field goes out in the background:
//
//	Touch ─ entered in this period? ── yes ─▶ nothing
//	            │ no
//	            ▼
//	  fields that wait, by shard ──▶ one HSET a shard, one at a time
//	            ▲                        │ no answer, or full
//	            └──── a pause ◀──────────┘ five times; then in the next period
//
// Who reads goes through the 16 hashes, page by page: [List] for people, a [Visitor]
// for upkeep. Either takes as long as there are structures, whatever else is stored.
//
// Names that come by the million, those of leases, are not entered here. They have an
// index by when to look at them next, which upkeep empties as they end: see [Due].
//
// # What is guaranteed
//
//   - Entering never fails a call, and no call waits for it: not on a full server, not
//     with a node that is silent, not without the permission. The latter is logged once.
//   - What is entered stays until its structure is gone: an entry is removed only when
//     the structure's key is missing on a server that answered, and never by age. The
//     abandoned queue is the one that somebody must see.
//   - A list is as complete as it can be: with a node that does not answer it yields
//     what the others have, and then says what is missing.
//   - A structure that does not answer, or takes long, keeps no visitor from the others.
//   - What a process has entered, its own lists and visitors see at once.
//
// # The wrinkle
//
// All of it is best effort. A registry that was lost, by FLUSHALL or by a failover, is
// whole again when each structure was used again, a few minutes later; one that nobody
// uses any more is found by `millrace doctor --scan`.
//
// A structure may be created in the very moment in which somebody finds that it is
// missing. So an entry is left alone for its first minute, and is removed only if nobody
// entered it since it was read. What remains is a structure that was deleted, and is
// created again by a process that entered it a short while before: it is missing from
// the registry until that process's next period, which is five minutes at most.
package registry
