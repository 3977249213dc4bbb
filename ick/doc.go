// Package ick provides dirty lists in Redis: sets of members that changed and need processing,
// such as documents whose copy in a search index is out of date.
//
// # The problem
//
// The obvious dirty list is a sorted set scored by the time of the change: ZADD when a document
// changes; in the indexer ZRANGE a batch, process it, ZREM it. It survives crashes, and it
// folds writes: a document that changes a hundred times before it is processed is one entry.
// Redis::Ick, by ProsperWorks, names this write folding: a queue that falls behind grows with the
// documents, not with their changes. But the list has two flaws, which Redis::Ick solved first.
//
//   - Lost changes. A document that changes while its batch is processed is marked again, and
//     then removed with the batch: it stays dirty, without a mark.
//   - Starvation of hot data. Each change gives a document the newest score. If it changes often
//     enough, it is never processed.
//
// # The mechanism
//
// An Ick is two sorted sets. Producers write to the producer set only. A member that is there
// keeps the lower of its scores: the time since when it is dirty. A consumer reserves a batch,
// which moves the oldest members into the consumer set; it processes them, and commits them,
// which removes them.
//
//	           Add                Reserve              Commit
//	producers ─────▶ producer set ───────▶ consumer set ─────▶ done
//	                      ▲                  │      │
//	                      │     backwash     │      │ Failed
//	                      ├◀─────────────────┘      ▼
//	                      └◀─── delay, Retry ──── parked
//
// A member may be in both sets: it changed while a consumer processes it. The consumer may not
// have seen that change, so the mark in the producer set survives the commit.
//
// That suffices for one consumer that strictly alternates. A second reserve before the commit, a
// second consumer or a repeated call would fold the new mark into the consumer set, where the
// commit would remove it. So each reservation has a number, and the Ick records for each reserved
// member which reservation last folded it. A commit names its reservation by a token, and removes
// only members that were not folded again since; it counts the others as kept. If it can remove
// none, the error is [millrace.ErrStale].
//
// A failover may take the newest reservations back, and their numbers then come again. So a token
// has random letters behind its number, and the Ick knows its newest tokens. A commit under
// another one removes nothing.
//
// Goroutines that add to one Ick value at the same time share script calls, and each gets its
// own result. So use one Ick value for each list in a process.
//
// # A channel: more than one consumer
//
// Two consumers of one Ick do much of the work twice. A [Channel] is several Icks behind one
// name: a hash of the member selects its Ick, and each Ick has one consumer at a time. The
// channel's own name cannot be used for an Ick. Consumers send a heartbeat each second to a
// table beside the Icks, and the same call divides the Icks evenly among live consumers. The
// table only avoids double work; the token prevents lost marks. A consumer is a [Channel.Consume], or
// a worker that makes rounds with [Channel.Exchange], such as one in another language behind HTTP.
//
// The number of Icks may be changed at any time, and no mark is moved. A larger number is used
// at once. After a smaller one, the Icks at the end are served until they are empty, and then
// retired:
//
//	                 Resize to fewer                 empty
//	in use, served ──────────────────▶ served only ───────▶ retired
//	      ▲ ▲              Resize to more    │                 │
//	      │ └────────────────────────────────┘                 │
//	      └────────────────────────────────────────────────────┘
//	                   Resize to more, and a first mark
//
// A producer may use an old number for any time. Its marks in an Ick that is still served are
// processed there. A retired Ick refuses marks, because its version key has changed; the
// producer then reads the new number. Each resize has a larger epoch, an Ick is retired under
// an epoch, and only a producer with a later epoch opens it again. So no mark gets into an Ick
// that no consumer serves.
//
// # Guarantees
//
//   - A mark is removed only by a commit of a reservation made after it, by [Ick.Drop] or by
//     [Ick.Delete]. Crashes, second consumers, late consumers, repeated calls and lost replies
//     lose no mark; nor does a failover or an old snapshot, of those that the new master has,
//     whatever its clock says.
//   - A member is marked once, however often it is added, with its oldest score.
//   - Reserve returns the oldest marks first, and the same ones again until they are committed.
//   - With two active consumers, commits still make progress. An Ick knows its newest 15 tokens
//     at least, so a consumer whose work takes longer than so many reservations of others gets
//     ErrStale, and its members are reserved again.
//   - When Redis is full, adds fail and change nothing; everything else works.
//   - One script call handles at most 1,000 members.
//   - All of it holds for a channel while consumers start, crash and stop and its size changes.
//     At rest each Ick has one consumer, and the numbers of Icks of two consumers differ by at
//     most one.
//
// # The wrinkle
//
// A member may be processed more often than it changed: after a crash, after a late commit, by
// two consumers. So the work must be idempotent: read the current state and bring the copy in
// line. Commit only after that is durable.
//
// The token protects the mark, not the copy. A consumer that was believed dead may write an old
// state long after another consumer wrote a newer one and committed. Let the copy refuse older
// versions: an external version in a search index, a condition in an UPDATE.
//
// While a channel's size changes, a member may be marked in its old and its new Ick, and two
// consumers may process it at the same time. The same happens permanently if producers hash
// differently.
//
// A score only orders. One in the future is reserved like any other, unless the Ick has a
// [Config.Settle] time. A producer whose clock is ahead puts its members behind those of others;
// AddNow uses the server's clock.
//
// # When not to use it
//
// When every event counts: an Ick keeps the set of changed members, not how often or how they
// changed. For messages use a queue. Use a channel only when one consumer is not enough: one
// that handles a batch with several goroutines often is.
//
// The design is that of ProsperWorks' Redis::Ick, whose sets and version key this package
// shares: Ruby producers and statistics work on the same Ick. The channel corresponds to the
// fixed set of Icks that its users built on top. docs/WIRE.md says what Ruby programs may do,
// docs/DEFECTS.md what differs.
package ick
