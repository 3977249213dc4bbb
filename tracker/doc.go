// Package tracker answers from memory which identifiers have work queued, and is
// kept in step with the database that knows by two small jobs.
//
// # The problem
//
// Millions of things have identifiers, a few thousand of them have tasks queued or
// running in a table, and many programs must know quickly, for each thing they
// touch, whether it does: do not show the edit button, do not serve from the
// cache. A query for each page is too much. A set in Redis is fast, but has to
// be kept true: producers crash between the database and Redis, workers finish
// and tell nobody, Redis is flushed.
//
// The set that this package is modelled on was filled by a job that walked the
// table and emptied by one that sampled it, under WATCH. That loses. SADD of a
// member that is there already changes nothing, so it trips no WATCH: an
// identifier that gets new work in the moment of its removal is removed. A cursor
// that never returns to the start sees each row once in its life. And until the
// walk is over, what is not in the set looks as if it had no work.
//
// # The mechanism
//
// The identifiers are a sorted set, and each one's score is its stamp: when it was
// last seen to have work queued, by the server's clock.
//
//	          Add, or a row of it           Add, or verified: has
//	          seen by an add slice          work; a new stamp
//	not tracked ─────────────────▶ tracked ──────────┐
//	     ▲                           │ ▲             │
//	     │                           │ └─────────────┘
//	     └───────────────────────────┘
//	       verified: has no work, and
//	       its stamp is what it was
//
// Producers add what they have queued, so it is known at once. The rest is repair,
// a slice at a time, in the idle moments of any process (see package steal):
//
//   - An add slice looks at the next rows of the table behind a cursor, adds the
//     identifiers of those with work and moves the cursor behind all of them, if
//     nobody else did meanwhile. Behind the last row the pass is over and the cursor
//     returns to the start.
//   - A verify slice takes the identifiers with the oldest stamps, asks the table
//     which of them have work, stamps those, and removes the others.
//
// A page of the table ends after so many rows, with work or not. Looking for the next
// row with work instead would read for as long as there is none: in a large table in which
// few rows have work, for longer than any slice may, and then no slice ever moves the
// cursor. Where rows take so long that a slice's budget ends before its page, the next
// slices look at half as many, down to one, and at more again when there is time. The same
// goes for how many identifiers are verified.
//
// Between looking into Redis and writing to it, a slice asks the database, and
// anything may happen. So a stamp is the time before the question, which claims
// no more than was seen; and an identifier is removed only if its stamp is the one
// that the slice looked at. Adding an identifier always changes its stamp.
//
// The cursor is part of the answer, too. An identifier that is not tracked has no
// work only if a whole pass has been over the table. Until then it is [Unknown],
// and the program asks the database. So it is after a flush: the count of passes
// is gone with the identifiers. An entry that is always there tells a set that is
// empty from one that was lost alone.
//
// # What is guaranteed
//
// With a clock that is not set back, and a source that does not lag:
//
//   - What was added and has work ever since stays tracked, whatever slices run at
//     once, fail or are overtaken.
//   - What has work from before a full pass begins is tracked when it ends, even if
//     nobody added it.
//   - A stamp is never later than the last moment at which the identifier was
//     added or had work.
//   - What has finished is removed when its turn comes. The oldest stamps come
//     first, so each has its turn.
//   - Each slice moves the cursor, however few rows have work, if the source can look at
//     one row within a slice's budget.
//   - After a flush, answers are [Queued] for what was seen since, and else
//     Unknown, until a pass is over.
//   - Every call may be repeated after a lost reply.
//   - When Redis is full, adding fails with millrace.ErrFull and changes nothing;
//     asking and removing go on.
//
// A slice is at most [MaxRows] rows or [MaxIDs] identifiers, one statement to the database
// and two calls to Redis. It is never repeated: the next one does the same again.
//
// # How old an answer may be
//
// Let there be s slices of each job a second. If a verify slice asks about n identifiers,
// one that has finished is shown as queued for at most
//
//	tracked / (n * s) + Grace
//
// seconds, which is 77 for 50,000 identifiers, 50 a slice, 15 slices a second and
// the default grace. [Answer.Age] says how old the knowledge is in a given case,
// [Stats.OldestCheck] in the worst.
//
// If an add slice looks at r rows, an identifier whose producer failed to add it is missing
// for at most two passes, of
//
//	rows / (r * s)
//
// seconds each: the pass under way may have gone by its row already. Rows are all that the
// table has, with work or not. That is 67 seconds a pass for a million rows, 1,000 a slice
// and 15 slices a second; with [Config].AddRows at 10,000 it is less than 7, if the
// database looks at 10,000 rows in half of a slice's budget. [Stats.PassTime] says what it
// is. In a much larger table, an index on the key that has only the rows with work makes
// rows mean those: see [SQLConfig].Indexed.
//
// The Age of what is [NotQueued] counts from the beginning of the last full pass, and grows
// when nobody walks any more; whoever needs a bound can ask the database beyond it.
//
// # The wrinkle
//
// Add comes after the commit. Before it, a verification may find no row and remove
// the identifier for good, or until a pass finds the row. If the order cannot be
// had, [Config.Grace] helps a little: an identifier that was added less than that
// ago is left alone. It must be longer than the rest of the transaction, and than
// the lag of a replica that the source reads. After a commit, an Add that fails
// should be tried again, and what still fails is repaired by the next pass.
//
// A failover or a restart that loses the last writes, or brings back old ones, is
// not noticed: identifiers that were lost are missing until a pass finds them,
// and those that came back are verified. After a restart from an old snapshot
// [Tracker.Delete] makes answers Unknown, and [Tracker.Fill] true again. Under an
// allkeys-* policy Redis may evict the tracker when memory is full, upon which
// answers are Unknown.
//
// A clock that is set back makes no answer wrong, but ages too small. Stamps that
// lie ahead of the clock are verified first.
//
// # When not to use it
//
// When an answer that is a minute old is of no use: for a lock use a lease, for
// the truth the database. When the identifiers with work are most of all
// identifiers, a filter in the table's own index is smaller. And when the queue is
// in Redis itself, ask the queue.
package tracker
