// Package rebalance moves tags from one partition of a fleet to another, when
// somebody asks for it, while they are in use.
//
// # The problem
//
// A fleet grows without moving data (package fleet). Now and then some is to move all
// the same: a user has become large, a partition is fuller than the others, a machine
// is to be given back. Clients remember for seconds where a tag is; a write that is
// under way may arrive after the copy was made; and whoever does the moving may die
// at any point of it. None of that may lose a write, or leave a tag in two places.
//
// # The mechanism
//
// A tag goes from S to D. The records that both have of it, the texts by which
// clients find it, take these steps, each of them a compare-and-set. R stands for
// the run, a random text.
//
//	step      record at S     record at D       clients
//
//	          S               -                 remember S
//	leave     S +to.D.R       -                 ask each time, and use S
//	claim     S +to.D.R       S +to.D.R.0       the same
//	          │ until nobody remembers: PlacementTTL, ReplyTimeout, a tenth
//	freeze    S !to.D.R       S +to.D.R.0       read from S; writers wait
//	          │ until no write under way can be a success: ReplyTimeout, a tenth
//	restore   S !to.D.R       S +to.D.R.1       the same
//	          │ and so on: .2 with the second chunk of keys, .3, ...
//	arrive    S !to.D.R       D +from.S.R       the same, or use D
//	flip      D +to.D.R       D +from.S.R       use D, and ask each time
//	          │ until no read under way is at S: ReplyTimeout, a tenth
//	clear     D +to.D.R       D +from.S.R       the same; S has no keys of it
//	unmark    D               D +from.S.R       the same
//	settle    D               D                 remember D
//
// From freeze to flip is the pause that a tag's writers feel; [Report] has it. For all
// tags of a batch together there is one pass over the keys of S in it: a server has
// no other list of what a tag has. Then keys are copied as DUMP, PTTL and RESTORE do
// it, in chunks of a megabyte at most, each as it is at one moment.
//
// The step that counts is arrive. Before it the tag is at S, and everything can be
// undone; after it the tag is at D, and everything can be finished. Its claim is what
// makes it safe: its number grows with each chunk, in the same transaction. So a
// master that has taken over at D and lacks a chunk does not have the claim either,
// and the tag does not arrive there. And what is copied or deleted is so only while
// the record is the one that was seen: a process that was held up, and wakes up when
// others have moved the tag on, does no harm.
//
// A tag that a full partition has sent on has a third record, which says S. It gets
// the mark of S behind leave, and is changed to D behind clear if it still has that
// mark: if not, somebody has moved the tag on. At S a record of about 100 bytes stays
// and says D: for those who ask there first, and for whoever was sent there before and
// comes late. If it found nothing there, it would take the tag for a new one.
//
// # Guarantees
//
//   - A tag has one place at any time. Who reads and writes it sees every write.
//
//   - Each type of value, its life and its consumer groups are the same afterwards.
//
//   - Wherever a call is cut off, the tag is in use in one place. Until somebody goes
//     on with it, writers may have to wait, if it was cut off in the pause, and some
//     keys may lie in the other partition, too. The same call again, or any that
//     moves the tag elsewhere, first undoes or finishes what was begun, and
//     [Mover.Resume] does for all tags of a partition.
//
//   - A call that fails or is cancelled undoes or finishes by itself what it can
//     reach.
//
//   - Of two calls that move the same tag the later one wins; the other keeps the tag
//     in its report.
//
//   - A partition that goes on with an old copy of its data, as one from the archive,
//     has no tag that was moved away since ([Restored]), if the partition to which it
//     was moved answers then.
//
// # The wrinkle
//
// The pause is a little more than ReplyTimeout, 0.55 seconds by the defaults, and on top
// of that the pass over the keys of S, about a second for a million, and the copy.
// Writers give up after some five seconds. Smaller batches make the copy shorter, but
// not the pass.
//
// A key is moved in one piece, and both servers do nothing else while they pack and
// unpack it. One so large that it cannot be sent and unpacked within the timeout of a
// connection, a second by default, is not moved.
//
// Marks and copies are data like any other. Each is on a replica before the next step
// relies on it, if the partition has one that is not down. Where there is none, a
// server that crashes and forgets its last second may forget them, too.
//
// What is slower than ReplyTimeout is not waited for. A read that takes longer between
// finding its place and reading there may find nothing. A write is no success then, as
// always; but if it changes keys of several chunks, and comes while these are copied,
// only a part of it may be taken along.
//
// Who blocks on a key of a tag that is moved notices when the time is over. Block for
// a second or so, never without end. And structures keep times as the server has
// them: the clocks of members must agree.
//
// A tag that is being forgotten (Forget) is in use for that when it is moved.
//
// # When not to use it
//
// To make room for new tags: add partitions, which moves nothing. To replace a
// machine: give its partitions replicas elsewhere, and let package failover switch.
package rebalance
