// Package fairqueue provides queues for many tenants in Redis, in which neither a tenant
// that floods nor one whose handlers are slow delays the others.
//
// # The problem
//
// In one queue for all, a tenant that writes ten thousand messages makes everybody
// else wait for ten thousand messages, and a tenant whose messages take five seconds
// each occupies every worker. A queue for each tenant is fair, but thousands of queues,
// most of them empty, are slow to go round, and have to be created, watched and removed.
//
// # The mechanism
//
// Every message belongs to a flow, and flows take turns. A flow is a tenant, unless
// [Config.Streams] says otherwise. The queue keeps a virtual time. Each flow that has
// messages has a tag, the virtual time at which its next one is due: one turn later than
// the virtual time was when its turn before ended. A read takes the flow with the lowest
// tag, sets the virtual time to it, and gives the flow a tag one turn later.
//
//	flow     waits          tag
//	acme     9,998 messages 17 ──▶ read ──▶ virtual time 17, acme's tag 18
//	globex   1 message      18
//	initech  3 messages     18
//
// So each flow has one delivery a round, however many messages it has; a flow that comes
// anew is served within the round; what was cancelled or has expired costs its flow
// nothing; and a turn that was not used is not saved up. That is self-clocked fair queueing
// (Golestani, 1994), with tags on the heads of flows only.
//
// With Streams, flows are streams, and each tenant has a few of them, its shuffle shard; a
// write goes into the one in which the fewest wait. That bounds what the queue keeps when
// others choose the names of tenants. The idea is that of Replicate's shuffle queues; see
// package shuffleshard.
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
// A message has an id, which stays the same through all of it: the server's clock in
// microseconds. A message that comes again keeps its place. Each delivery has a receipt,
// and acknowledging, giving back and extending take that: a reader that is late cannot
// settle what another one has by now.
//
// # Slow tenants
//
// Whoever [Queue.Consume]s tells the queue how many handlers he has. A tenant may have
// another message started if it has none in hand, or fewer than handlers are free, or if
// its handlers took 20 ms or less of late, or if nobody else had a message for a minute.
// So one slow tenant gets half of all handlers, two get a third each, and the others find
// a free one. Messages that are taken with [Queue.Read] are neither limited nor counted.
//
// # What is guaranteed
//
//   - At least once: a message that was written is delivered again and again until
//     it is acknowledged, cancelled, expired at its deadline or dead. Crashes of
//     readers and lost replies lose none.
//   - Between two flows that both have messages, deliveries differ by one at most in any
//     round; with weights ([Queue.SetWeight]) they are in proportion.
//   - A flow's messages that were not delivered before come in the order of their priority
//     and then of their writing.
//   - Each call is applied wholly or not at all, and may be repeated after a lost
//     reply: the library does so, with the same answer.
//   - A stale receipt changes nothing and is [millrace.ErrStale].
//   - If messages wait and readers sleep, one reader wakes for each message, in
//     about the time of a round trip; should the woken one die, another finds the
//     message within a second. A queue in which nothing waits wakes nobody.
//   - A process that waits sends two commands a second, however many goroutines
//     wait in it and however many Queues of one name it has on a client.
//   - Looking takes nothing: [Queue.Browse] shows what waits, is in flight or is
//     set aside, page by page.
//   - When Redis is full, writing fails and changes nothing; reading and settling
//     go on.
//   - The keys of a queue are a fixed set, so the slot of a Redis Cluster that they lie in
//     can be moved under load.
//   - Time is the server's.
//
// docs/GUARANTEES.md says which test shows what.
//
// # The wrinkle
//
// Delivered at least once is not handled exactly once: a handler that finished
// and could not say so runs again, so its work must be idempotent.
//
// A turn is a message, not a time: only handlers of Consume are shared by time. With one
// handler in all there is no protection from slow tenants. A tenant whose times nobody knows
// yet counts as slow, so the first burst after a rest starts on half of the handlers. One
// whose messages were quick and then hang may still occupy all handlers: nobody knows that
// they are slow before the first of them has returned. [ConsumeConfig].Timeout and MaxRun
// bound for how long. And the handlers of a process that was killed count for 15 seconds.
//
// A tenant that may choose its own name can be many tenants, with a turn each. Use a name
// that it cannot choose, or Streams.
//
// A waiting message takes some 250 bytes beside its body. The streams of Redis take a tenth
// of that, and nobody else reads what lies here: see docs/WIRE.md for its layout.
//
// The end of the visibility is noticed by a read, or by [Jobs]. A queue whose
// readers are all gone notices when one comes.
//
// # When not to use it
//
// When several kinds of readers must each see every message: write to two queues, or use a
// stream. When only the last state of a thing counts, and not each event, package ick
// folds a thousand changes into one. When all messages are one tenant's, a plain stream
// costs the server less.
package fairqueue
