// Package ick provides dirty lists in Redis: sets of things that changed and
// that somebody has to bring in line, such as documents whose row in a database
// is newer than their copy in a search index.
//
// # The problem
//
// The obvious dirty list is a sorted set scored by the time of the change: ZADD
// when a document changes; in the indexer ZRANGE a batch, process it, ZREM it.
// It survives crashes, and it folds writes: a document that changes a hundred
// times before its turn is one entry, so the further the indexer falls behind,
// the slower it falls. But it has two flaws.
//
//   - Forgotten dirtiness. A document that changes while its batch is being
//     processed is marked again, and then removed with the batch: it stays dirty
//     and nobody knows.
//   - Starvation of hot data. Each change moves a document to the young end. One
//     that changes more often than its turn comes is never processed.
//
// # The mechanism
//
// An Ick is two sorted sets. Producers write to the producer set only, and a
// member that is there keeps the lower of its scores: the time since when it is
// dirty, which only ages. A consumer reserves a batch, which moves the oldest
// members into the consumer set; it processes them, and commits them, which
// removes them from there.
//
//	           Add                Reserve              Commit
//	producers ─────▶ producer set ───────▶ consumer set ─────▶ done
//	                      ▲                  │      │
//	                      │     backwash     │      │ Failed
//	                      ├◀─────────────────┘      ▼
//	                      └◀──── time, hand ────  parked
//
// A member may be in both sets. Then it was dirtied again while a consumer has
// it, nobody can say whether the consumer saw the new state, and so the mark in
// the producer set outlives the commit.
//
// That alone is safe for one consumer that strictly takes turns. A second
// reserve before the commit, a second consumer, one that was thought dead or a
// repeated call would fold the new mark into the consumer set, where the commit
// would take it for the old one. So each reservation has a number, its token,
// and the Ick knows for each reserved member which reservation last folded it. A
// commit removes only members that were not folded again since its token; it
// keeps the others and says so. When nothing could go, it is [ErrStale].
//
// # What is guaranteed
//
//   - A mark that was added leaves only by a commit of a reservation that was
//     made after it, by [Ick.Drop] or by [Ick.Delete]. Crashes, second
//     consumers, zombies, repeated calls and lost replies forget nothing.
//   - A member is marked once, however often it is added, with its oldest score.
//   - Reserve hands out the oldest marks first, and the same ones again until
//     they are committed.
//   - With two consumers at work, commits still make progress.
//   - When Redis is full, adds fail and change nothing; everything else works.
//   - One script call handles at most 1,000 members.
//
// # The wrinkle
//
// A member may be processed more often than it changed: after a crash, after a
// commit that came too late, by two consumers at once. So the work must be
// idempotent: do not apply a change, but look at what is true now and bring the
// copy in line. And commit only after that is durable.
//
// The token protects the mark, not the downstream copy. A consumer that was thought
// dead may write what it saw long after another one wrote something newer and
// committed. Let the copy refuse what is older than what it has: an external
// version in a search index, a condition in an UPDATE.
//
// A score only orders. One in the future is handed out like any other, unless
// the Ick has a [Config.Settle] time. A producer whose clock runs ahead puts its
// members behind those of others; AddNow uses the server's clock.
//
// # When not to use it
//
// When every event counts: an Ick keeps the set of members that changed, and
// forgets how often and how. For messages use a queue. And an Ick has one
// consumer at its best: several forget nothing, but repeat each other's work.
//
// The design is that of ProsperWorks' Redis::Ick, whose sets and version key
// this package shares: Ruby producers and statisticians work on the same Ick.
// docs/WIRE.md says what they may do; docs/DEFECTS.md says what was mended.
package ick
