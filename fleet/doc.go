// Package fleet makes many Redis servers one: all data of a user is on one of them,
// and servers are added while all are in use, without moving data.
//
// # The problem
//
// One Redis has the memory of one machine and one thread. Redis Cluster spreads data by
// slots, and moves slots when it grows. A fleet grows differently: existing data stays
// where it is, and new data goes where there is room. So Meshin scaled its indexes: partitions on
// a ring, a directory, and forwarding when one is full.
//
// # The mechanism
//
// A fleet has partitions, each a master with replicas, on a hash ring (package ring).
// A tag is the text in the braces of a key: {user:7}:name and {user:7}:mail have the
// tag user:7, and all keys of a tag are on one partition. That partition stores a
// record of the tag:
//
//	write for a tag                      the ring: partition 5 owns it, before that 1
//	     │                                        │
//	     ├─ cached? ────── yes ─▶ go there        │
//	     │ no                                     ▼
//	     ├─ ask 5 for its record ─ "5" ─────────▶ 5, the owner
//	     │ none                  └ "3" ─────────▶ 3: 5 was full and forwarded it
//	     ├─ ask 1 for its record ─ "1" ─────────▶ 1: older than partition 5
//	     │ none, and both are sure
//	     └─ place it on 5: write the record if there is none
//	             └─ 5 is full ─▶ find room on 3, write "3" into 5's record
//
// A client asks at most one partition per generation of the ring, and caches the
// answer for a while. Only one partition may write the first record of a tag, so a tag
// has one place even if many clients write for it at the same time.
//
// The map lists the partitions and their masters. A [Directory] keeps it. An agent that
// replaces a master changes the map, and must be sure that no client writes to the old
// master any more. That is the fence:
//
//	client   ask directory ──────────── write ───────── reply
//	         │◀──────── ViewTTL ─────────▶│◀ ReplyTimeout ▶│
//	         │  the map is confirmed      │  later is uncertain
//
// A client writes only if the directory confirmed its map less than ViewTTL ago, counted
// from before it asked. A reply that takes longer than ReplyTimeout is not a success.
// The agent waits for both, and 10% longer. Clocks of different machines are never
// compared. A command that blocks on the server may take longer: its reply counts as
// long as the master cannot have been replaced.
//
// [Fleet.Client] is one rueidis.Client for all partitions, so every structure of
// Millrace runs on a fleet unchanged.
//
// # Guarantees
//
//   - A tag has one place at any time, also while partitions are added and members are
//     down. If a partition that might have the tag does not answer, the call fails with
//     ErrUnavailable.
//   - A write that succeeded was executed by the master of that time. Replication is
//     asynchronous: with [Config].WaitReplicas a successful write is on that many
//     replicas; without it, a master that dies loses the writes that it had not yet sent.
//   - A write is sent once. If its reply is lost, the error is [millrace.ErrUncertain].
//     The structures of Millrace retry, with effect once.
//   - When the directory is unreachable the fleet becomes read-only after ViewTTL, and
//     writable again by itself.
//   - Adding a partition moves nothing, and delays only the placing of new tags, for
//     some milliseconds.
//
// # The wrinkle
//
// The data of a tag must fit one partition, and a hot tag is not spread. A command with
// keys of several tags is refused. A script counts as a write, so reading the length of
// a structure that was never written places its tag.
//
// A tag keeps its place when its data is gone: a record of about 100 bytes.
// [Fleet.Forget] removes it.
//
// The fence uses a clock that stops while a machine is suspended. The client detects
// that within 200 ms and stops writing until the directory confirms the map, but a
// write in flight at that moment may be reported as a success.
//
// A master that dies a moment after it wrote a record may lose it. So a placement waits
// up to half of ReplyTimeout for a replica to have the record.
//
// # When not to use it
//
// If one Redis with a replica and Sentinel is enough. If failovers should be decided by
// a majority, or data should spread evenly by itself, use Redis Cluster: the same
// programs run there. docs/FLEET.md compares them.
//
// The design follows Meshin, who ran 160 partitions on 14 machines: a ring that grows by
// forwarding, a directory, replicas on other nodes. The record on a full partition, the
// fence and the two steps of adding partitions are Millrace's.
package fleet
