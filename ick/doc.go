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
// keeps the others and says so. When nothing could go, it is [millrace.ErrStale].
//
// Goroutines that add to one Ick value at the same time share script calls, and each gets
// its own answer: a lone add goes out at once, and those that come while a call is under
// way go out together with the next. So use one Ick value for each list in a process.
//
// # A channel: more than one consumer
//
// Two consumers of one Ick do much of the work twice. A [Channel] is several Icks
// behind one name: a hash of the member picks its Ick, and each Ick has one
// consumer at a time. The channel's own name is not an Ick, and none begins there. The consumers say each second that they live, in a table
// beside the Icks, and the same call shares the Icks out evenly among those who
// do. The table saves double work and no more; what forgets nothing is the token.
//
// The number of Icks may be changed at any time, and no mark is moved. A larger
// number is used at once. After a smaller one, the Icks at the end are served
// until they are empty, and then retired:
//
//	                 Resize to fewer                 empty
//	in use, served ──────────────────▶ served only ───────▶ retired
//	      ▲ ▲              Resize to more    │                 │
//	      │ └────────────────────────────────┘                 │
//	      └────────────────────────────────────────────────────┘
//	                   Resize to more, and a first mark
//
// A producer may know an old number for as long as it likes. What it marks in an
// Ick that is served is worked off there. A retired Ick refuses it, since its
// version key is not what it was, upon which it asks for the new number. Each
// resize has a larger epoch than the one before, an Ick is retired under an
// epoch, and only a producer that knows a later one opens it again: so no mark
// gets into an Ick that nobody looks at, however late a producer or a consumer
// acts on what it knew.
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
//   - All of it holds for a channel while its consumers crash, come and go and its
//     size changes. At rest, each Ick has one consumer, and no consumer has two
//     more than another.
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
// While a channel's size changes, a member may be marked in its old and in its new
// Ick, and two consumers may work on it at the same time. The same happens, for
// good, between producers that hash differently.
//
// A score only orders. One in the future is handed out like any other, unless
// the Ick has a [Config.Settle] time. A producer whose clock runs ahead puts its
// members behind those of others; AddNow uses the server's clock.
//
// # When not to use it
//
// When every event counts: an Ick keeps the set of members that changed, and
// forgets how often and how. For messages use a queue. And use a channel only
// when one consumer is not enough: one that handles a batch with several
// goroutines often is.
//
// The design is that of ProsperWorks' Redis::Ick, whose sets and version key
// this package shares: Ruby producers and statisticians work on the same Ick. The
// channel is what its users there built on top, with a fixed number of Icks.
// docs/WIRE.md says what they may do; docs/DEFECTS.md says what was mended.
package ick
