// Package rebalance moves tags from one partition of a fleet to another, on request,
// while they are in use.
//
// # The problem
//
// A fleet grows without moving data (package fleet). Sometimes data must move all the
// same: a user has become large, a partition is fuller than the others, a machine must be
// returned. Clients remember for seconds where a tag is, a write in flight may arrive
// after the copy was made, and the process that moves the tag may die at any step. None
// of that may lose a write or leave a tag in two places.
//
// # The mechanism
//
// A tag moves from S to D. Its records on both, the texts by which clients find it, take
// these steps. Each step is a compare-and-set. R is the run, a random text.
//
//	step      record at S     record at D       clients
//
//	          S               -                 remember S
//	leave     S +to.D.R       -                 use S, and look it up each time
//	claim     S +to.D.R       S +to.D.R.0       the same
//	          │ until no client remembers S: PlacementTTL, ReplyTimeout, 10 %
//	freeze    S !to.D.R       S +to.D.R.0       read from S; writers wait
//	          │ until no write in flight can succeed: ReplyTimeout, 10 %
//	restore   S !to.D.R       S +to.D.R.1       the same
//	          │ then .2 with the second chunk of keys, .3, ...
//	arrive    S !to.D.R       D +from.S.R       the same, or use D
//	flip      D +to.D.R       D +from.S.R       use D, and look it up each time
//	          │ until no read in flight is at S: ReplyTimeout, 10 %
//	clear     D +to.D.R       D +from.S.R       the same; S has no keys of it
//	unmark    D               D +from.S.R       the same
//	settle    D               D                 remember D
//
// Writers of a tag wait from freeze to flip: [Report] gives this pause. Each batch of
// tags needs one pass over the keys of S during the pause, since a server has no other
// list of a tag's keys. Keys are copied with DUMP, PTTL and RESTORE, in chunks of at most
// a megabyte. A chunk shows its keys as they are at one moment.
//
// The step that decides is arrive. Before it the tag is at S, and after it at D. The claim
// makes it safe: its number grows with each chunk, in the same transaction. A master that took
// over at D without a chunk lacks that claim too, and the tag does not arrive there.
// Keys are copied and deleted only while the record is the expected one, so a process
// that was suspended does no harm when it continues after others have moved the tag.
//
// The next call reads the rest of a cut-off move from the records alone. If the tag has arrived,
// it does the rest. If not, it first makes sure that the tag cannot arrive any more, and
// that writers go on: it replaces the claim, and S !to.D.R by S +to.D.R.thawed. Then it takes
// the tag over: its own leave and claim replace these, and it copies the tag anew.
//
// A record counts only if the partition's elected master returned it, in the run that the map
// names: one script reads it, passes the fence as a write does, and says in which run the server is
// and whether it went back in time. Until a partition that went back is compared with the others,
// no tag is moved from it or to it, and nothing is deleted elsewhere because a tag is there.
//
// A tag that a full partition has forwarded has a third record, which says S. It gets the
// mark of S behind leave. After clear it changes to D if it still has that mark; if not,
// another call has moved the tag on. At S a record of about 100 bytes stays and says D,
// for clients that ask there first or arrive late. Without it they would take the tag for
// a new one.
//
// # Guarantees
//
//   - A tag has one place at any time. Its readers and writers see every write.
//
//   - Each value keeps its type, its TTL and its consumer groups.
//
//   - Wherever a call is cut off, the tag is in use in one place. Until the next call,
//     writers may have to wait, and some keys may lie in the other partition too. The same
//     call completes the move; so do agents ([Mover.Maintain]). A call that moves the tag
//     elsewhere first takes back a move that has not arrived.
//
//   - A call that fails or is cancelled lets the writers of all tags that it can reach go
//     on. The moves that it has begun are to be completed. Tags that it keeps stay where they
//     were, and so do those for which a partition is full.
//
//   - Of two calls that move the same tag the later one wins. The other one reports the
//     tag as kept.
//
//   - Whatever data partitions come back with, each tag has one home in the end
//     ([Restored], [Mover.Compare]), and nothing is deleted on the word of a partition that went
//     back. A copy that has not arrived is no data of the tag.
//
// # The wrinkle
//
// The pause is ReplyTimeout and 10 %, 0.55 seconds by default, plus the pass over the keys
// of S, about a second per million, and the copy. Writers give up after about five
// seconds. Smaller batches shorten the copy, but not the pass.
//
// A key is moved in one piece, and both servers do nothing else meanwhile. A key that
// cannot be sent and unpacked within a connection's timeout, a second by default, is not
// moved.
//
// Each mark and copy is on a replica before the next step relies on it, if the partition
// has a replica that is up. Without one, a server that crashes and loses its last second
// may lose them.
//
// No call is waited for longer than ReplyTimeout. A read that stalls longer between
// finding the place and reading there may find nothing. A write that stalls longer is not
// reported as a success; if it changes keys of several chunks while these are copied, a
// part of it may be copied.
//
// A call that blocks on a key of a moving tag notices when its time is over: block for a
// second or so. Structures keep times by the server's clock, so the clocks of members
// must agree. Moving a tag that is being forgotten (Forget) ends the forgetting.
//
// # When not to use it
//
// To make room for new tags: add partitions, which moves nothing. To replace a machine:
// give its partitions replicas elsewhere, and let package failover switch.
package rebalance
