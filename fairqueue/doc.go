// Package fairqueue provides queues for many tenants in Redis, in which a tenant
// that floods does not delay the others.
//
// # The problem
//
// In one queue for all, a tenant that writes ten thousand messages makes everybody
// else wait for ten thousand messages. A queue for each tenant is fair, but
// thousands of queues, most of them empty, are slow to go round, and have to be
// created, watched and removed.
//
// # The mechanism
//
// A queue is a fixed number of streams, 64 unless told otherwise. Each tenant has
// a few of them, its shuffle shard, which a hash of its name picks; see package
// shuffleshard. A message goes into the one of its tenant's streams in which the
// fewest wait. Readers go round the streams in which any wait, one message a
// stream a turn. So a flood fills four streams of 64, and a tenant that has even
// one other stream waits for a round and not for the flood.
//
//	tenant a ──▶ streams 3 17 40 58 ─┐
//	tenant b ──▶ streams 9 17 21 33 ─┼─▶ round and round ──▶ readers
//	tenant c ──▶ streams 0  9 40 62 ─┘
//
// What becomes of a message:
//
//	Write ──▶ waiting ──▶ in flight ──┬─ Ack ──▶ gone, with its memory
//	  │         ▲  ▲         │        ├─ Nack ─▶ delayed, or waiting again
//	  │ Delay   │  │         │        ├─ too many attempts, Dead ──▶ dead
//	  ▼         │  └─────────┘        └─ Cancel ──▶ gone
//	delayed ────┘   not done within
//	     its time   the visibility       waiting ── Deadline, Cancel ──▶ gone
//	     has come                        dead ── Redrive ──▶ waiting;  Purge ──▶ gone
//
// A message has an id, which stays the same through all of it. Each delivery has
// a receipt, and acknowledging, giving back and extending take that: a reader
// that is late cannot settle what another one has by now.
//
// What is in flight is known in one place only, the pending lists of the streams'
// consumer group. The name of the consumer there ends with the visibility: an entry
// that has been idle for so long is visible again. A message that comes again is a
// new entry at the end of its stream, so it does not go before others.
//
// # What is guaranteed
//
//   - At least once: a message that was written is delivered again and again until
//     it is acknowledged, cancelled, expired at its deadline or dead. Crashes of
//     readers, lost replies and resizes lose none.
//   - Each call is applied wholly or not at all, and may be repeated after a lost
//     reply: the library does so, with the same answer.
//   - A stale receipt changes nothing and is [ErrStale].
//   - Within a stream, messages that were not delivered before come in the order in
//     which they were written; a tenant's messages are in several streams.
//   - If messages wait and readers sleep, one reader wakes for each message, in
//     about the time of a round trip; should the woken one die, another finds the
//     message within a second. A queue in which nothing waits wakes nobody.
//   - A process that waits sends two commands a second, however many goroutines
//     wait in it and under however many names, on one connection.
//   - Looking takes nothing: [Queue.Browse] shows what waits, is in flight or is
//     set aside, page by page. What stays in its place meanwhile is shown once.
//   - When Redis is full, writing fails and changes nothing; reading and settling
//     go on.
//   - Time is the server's.
//
// docs/GUARANTEES.md says which test shows what.
//
// # The wrinkle
//
// Delivered at least once is not handled exactly once: a handler that finished
// and could not say so runs again, so its work must be idempotent.
//
// Fair is a matter of chance. Two tenants of 64 streams, 4 each, share all of
// them once in 635,376 pairs; with 16 and 2 it is once in 120, and then one waits
// for the other's flood. And ten tenants that flood at once leave hardly a stream
// to the others: one tenant in twenty has none left. A tenant that chooses its own
// name can choose its streams: put something secret before such names.
// Fairness counts messages, not time: a tenant with few and slow messages can keep
// all handlers busy.
//
// Each name under which somebody reads, with each visibility, is kept in each
// stream that it took from, in some 300 bytes. [TendJob] forgets those that have
// nothing in flight and did not come for a minute; without it they stay.
//
// The end of the visibility is noticed by a read, or by [TendJob]. A queue whose
// readers are all gone notices when one comes.
//
// # When not to use it
//
// When order matters across a tenant's messages; here it does not even hold within
// one after a retry. When several kinds of readers must each see every message:
// write to two queues. When only the last state of a thing counts, and not each
// event, package ick folds a thousand changes into one.
//
// The design is that of Replicate's shuffle queues; docs/DEFECTS.md says what was
// mended.
package fairqueue
