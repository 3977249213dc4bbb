// Package reqid lets a call that is sent again take effect once.
//
// # The problem
//
// A server may run a call and its reply may be lost. The library then repeats the call. Most
// scripts are idempotent by nature; the others must recognise the repeat.
//
// A store of answers by call id needs a bound. With a bound on their number, other calls evict an
// answer within half a second on a busy structure. With a bound on their age, the store grows with
// the rate of calls.
//
// # The mechanism
//
// A client has a random name and numbered lanes. A call takes a free lane ([Lanes]) and the next
// number of that lane, its ticket. The fragment lane, in front of the script, stores the answer to
// the last call of each lane with its ticket:
//
//	stored ticket     ticket of the call
//	none, or lower    higher               the call runs; its answer is stored instead
//	the same          the same             a repeat: it gets the stored answer
//	higher            lower                too late: refused
//	the same number   other letters        a copy of the machine: refused
//
//	client                                    structure
//	  │── lane 3, ticket 17 ───────────────────▶│ runs; stores 17 and the answer
//	  │        ✕ the reply is lost              │
//	  │── lane 3, ticket 17 ───────────────────▶│ 17 is stored
//	  │◀─────────────────────── its answer ─────│
//	  │── lane 3, ticket 18 ───────────────────▶│ runs; stores 18
//
// So memory is bounded by the calls in flight, and other calls cannot evict an answer. A call
// costs one HMGET and one HSET.
//
// Two hashes hold the answers in turn, for ten minutes each, without an index. The answer of an
// idle lane is forgotten after ten to twenty minutes, at the structure's next call or upkeep (the
// fragment tidy). Where there is no upkeep, the hashes have a Redis TTL. The library's own repeats
// end after seconds.
//
// A copy of a machine, or of a process, has the same lanes. The kernel gives each ticket other
// letters. A client that is refused for that on the first try takes another name and repeats the
// call.
//
// # A request that its client repeats
//
// A killed process loses its lanes. A request that may come again, to another process, has a key
// that its client chose. [With] puts a seed into the context. Each call under it takes a lane
// derived from the seed: the first call the first, the second the second. Such lanes are used
// once, and two hashes hold them in turn for a day each.
//
//	client         process 1        Redis         process 2
//	  │── key ────────▶│── lane ──────▶│ runs           │
//	  │                ✕ killed        │                │
//	  │── key ─────────────────────────┼───────────────▶│
//	  │                                │◀──────── lane ─│
//	  │                           the stored answer     │
//	  │◀────────────────────────────────────────────────│
//
// Calls under a seed are not shared with other goroutines. Concurrent calls of one request take
// their ids before they start.
//
// # The wrinkle
//
// A failover that loses the newest writes loses a call and its answer together. Most scripts store
// no answer if they changed nothing, so a repeat of such a call may find something to do.
//
// # When not to use it
//
// Not for scripts that are idempotent by nature. Not as a dedupe window for users: that is the web
// service's Idempotency-Key, or a queue's dedupe id.
package reqid
