// Package reqid lets a call that is sent again take effect once.
//
// # The problem
//
// A server may do the work and its reply may be lost. The library then sends the same
// call again. Most scripts are idempotent by nature; the others must know the call.
//
// Answers that are kept by an id of the call must be forgotten some day. By count, the
// calls of others push an answer out in half a second on a busy structure. By time, the
// store grows with the rate of calls.
//
// # The mechanism
//
// A client has a random name, and numbers its lanes. A call takes a free lane ([Lanes]),
// whose number of calls goes up by one: its ticket. The fragment lane, in front of the
// script, keeps the answer to the last call of each lane, together with its ticket:
//
//	a lane's last ticket   the call's
//	none, or lower         newer        it is done, and its answer takes the place
//	the same               the same     a repeat: it gets the answer
//	higher                 older        it comes too late, and is refused
//	the same number        of others    a copy of the machine: it is refused
//
//	client                                    structure
//	  │── lane 3, ticket 17 ───────────────────▶│ done; 3 -> 17 and the answer
//	  │        ✕ the reply is lost              │
//	  │── lane 3, ticket 17 ───────────────────▶│ 17 is known
//	  │◀─────────────────────── its answer ─────│
//	  │── lane 3, ticket 18 ───────────────────▶│ done; 3 -> 18
//
// So memory is bounded by the calls that are under way at once, and nothing that others
// do can push an answer out. Storing costs one HSET, and looking one HMGET.
//
// The answers lie in two hashes that take turns, for ten minutes each, which needs no
// index. A lane that rests is forgotten after ten to twenty minutes, when the structure
// is called again or its upkeep comes by (the fragment tidy). Where there is no upkeep,
// the hashes leave by a Redis TTL at the end of that time. The library's own repeats end
// after seconds.
//
// A copy of a machine, or of a process, has the same lanes. The kernel gives each call's
// ticket other letters. Who is refused for that on the first try draws another name and
// sends the call once more.
//
// # A request that its asker repeats
//
// A process that is killed takes its lanes along. A request that may come again from
// outside, to another process, brings a key that its asker chose. [With] puts a seed into
// the context, and each call under it takes a lane of its own, derived from the seed: the
// first call the first, the second the second. Such lanes are used once, and kept in two
// hashes that take turns for a day each, which only such requests pay for.
//
//	asker          process 1        Redis         process 2
//	  │── key ────────▶│── lane ──────▶│ done           │
//	  │                ✕ killed        │                │
//	  │── key ─────────────────────────┼───────────────▶│
//	  │                                │◀──────── lane ─│
//	  │                        the answer that is known │
//	  │◀────────────────────────────────────────────────│
//
// Calls that goroutines share are shared among those without a seed only. What one call
// does at the same time in several places is numbered before it begins.
//
// # The wrinkle
//
// A failover that loses the newest writes loses a call and its answer together. Most
// scripts do not keep that they did nothing: what found nothing to do may find something
// when it is repeated.
//
// # When not to use it
//
// Not for scripts that are idempotent by nature. Not as a user's dedupe window: that is
// the web service's Idempotency-Key, or a queue's dedupe id.
package reqid
