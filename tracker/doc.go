// Package tracker answers from memory which identifiers have work queued. Two small jobs keep
// it in step with the database that has the truth.
//
// # The problem
//
// Of millions of identifiers a few thousand have tasks queued or running in a table, and many
// programs must know quickly whether one does: to hide an edit button, or to bypass a cache. A
// query per page is too much. A set in Redis is fast but becomes wrong: producers crash between
// the database and Redis, workers finish without notice, Redis is flushed.
//
// A set that one job fills by a walk through the table, and another one empties by samples under
// WATCH, loses identifiers: SADD of an existing member trips no WATCH, so an identifier that gets
// new work during its removal is removed. And until the walk ends, missing identifiers seem to
// have no work.
//
// # The mechanism
//
// The identifiers are a sorted set. The score of each is its stamp: when it was last seen with
// work queued, by the server's clock.
//
//	          Add, or an add slice          Add, or verified: has
//	          reads a row of it             work; a new stamp
//	not tracked ─────────────────▶ tracked ──────────┐
//	     ▲                           │ ▲             │
//	     │                           │ └─────────────┘
//	     └───────────────────────────┘
//	       verified: has no work, and
//	       its stamp has not changed
//
// Producers add identifiers when they queue work. The rest is repair by [Tracker.Jobs], a slice
// at a time, in the idle moments of any process (see package steal):
//
//   - An add slice reads the next rows of the table behind a cursor, in the order of their
//     identifiers, adds those with work and moves the cursor, unless another slice moved it
//     meanwhile. After the last row the pass is complete and the cursor returns to the start.
//   - A verify slice takes the identifiers with the oldest stamps, asks the table which of them
//     have work, stamps those, and removes the others.
//
// Work moves between rows: an old task is tried again while a newer one ends. A pass in the order
// of the rows would see the first row before and the second one afterwards, and miss an identifier
// that had work all the time. In the order of identifiers a pass looks at each one once, with all
// of its rows at one moment.
//
// A page of the table ends after a fixed number of rows, with work or not: a query for the next
// row with work may read a large table to its end. If a slice's budget ends before its page, the
// next slices read half as many rows, down to one, and more again when there is time.
// Verification adapts alike.
//
// A slice asks the database between reading from Redis and writing to it. So a stamp is the time
// before the question, and an identifier is removed only if its stamp has not changed. Adding an
// identifier always changes its stamp.
//
// An identifier that is not tracked has no work only if a complete pass has read the table. Until
// then, also after a flush, it is [Unknown], and the program asks the database. An entry that
// always exists distinguishes an empty set from a lost one.
//
// # Guarantees
//
// With a clock that is not set back, and a source that does not lag:
//
//   - An added identifier that has work ever since stays tracked, whatever slices run at once,
//     fail or are overtaken.
//   - An identifier that has work at every moment from the beginning of a full pass to its end
//     is tracked when the pass ends, even if no producer added it, and whatever rows its work
//     is in. So for [NotQueued] there was a moment without work since the last full pass
//     began, or the pass had gone by when its work began.
//   - A stamp is never later than the last moment at which the identifier was added or had
//     work.
//   - Finished identifiers are removed in their turn, the oldest stamps first.
//   - Each slice moves the cursor if the source can read the rows of one identifier, up to the
//     first with work, within a slice's budget. If it cannot, the jobs log a warning with the cursor
//     or the identifier: then raise the budget (Budget in package steal), or call [Tracker.Fill],
//     which only its context bounds.
//   - After a flush, identifiers that were seen since are [Queued], and others Unknown until
//     a pass is complete.
//   - Every call may be repeated after a lost reply.
//   - When Redis is full, adding fails with millrace.ErrFull and changes nothing; answers and
//     removals continue.
//
// A slice is at most 10,000 rows or [MaxIDs] identifiers, one or two statements to the database
// and two calls to Redis. It is never retried: the next one does the same again.
//
// # How old an answer may be
//
// With s slices of each job per second and n identifiers per verify slice, finished work is
// shown as queued for at most
//
//	tracked / (n * s) + Grace
//
// seconds: 77 for 50,000 identifiers, 50 per slice, 15 slices per second and the default grace.
// [Answer.Age] is the age of one answer, [Stats.OldestCheck] the worst one.
//
// With r rows per add slice, an identifier that its producer failed to add is missing for at
// most two passes (the current one may already be past its row) of
//
//	rows / (r * s)
//
// seconds each, over all rows of the table: 67 seconds per pass for a million rows, 1,000 per
// slice and 15 slices per second; less than 7 with 10,000 [Config].AddRows, if the database reads
// them in half of a slice's budget. [Stats.PassTime] has the real value. In a much larger table,
// use an index with only the rows that have work: see [SQLConfig].Indexed.
//
// The Age of a [NotQueued] answer counts from the beginning of the last complete pass, and
// grows when the jobs stop. A program that needs a bound asks the database beyond it.
//
// # The wrinkle
//
// Add comes after the commit. Before it, a verification may find no row and remove the
// identifier until a pass finds the row. Where the order is impossible, [Config.Grace] helps: a
// recently added identifier is left alone. Grace must be longer than the rest of the
// transaction and than the lag of a replica that the source reads. Retry an Add that fails
// after a commit; the next pass adds those that still failed.
//
// After a failover or restart that loses writes, lost identifiers are missing until a pass finds
// them, and restored ones are verified. After a restart from an old snapshot, call
// [Tracker.Delete], which makes answers Unknown, and [Tracker.Fill]. Under an allkeys-* policy a
// full Redis may evict the tracker; then answers are Unknown.
//
// A clock that is set back makes no answer wrong, but ages too small. Stamps ahead of the clock
// are verified first.
//
// # When not to use it
//
// When an answer must not be a minute old: for a lock use a lease, for the truth the database.
// When most identifiers have work, a filter in the table's own index is smaller. And when the
// queue is in Redis, ask the queue.
package tracker
