// Package fleet makes many Redis servers one: each user's data lies on one of
// them, more are added while all is in use, and no data moves.
//
// # The problem
//
// One Redis has one machine's memory and one thread. Redis Cluster shares data out
// by slots, and moves slots when it grows. A fleet grows otherwise: what is there
// stays where it is, and what is new goes where there is room. It can be doubled
// on a Monday morning.
//
// # The mechanism
//
// A fleet has partitions: a master each, and replicas. They lie on a ring (package
// ring). What belongs together is a tag, the text in the braces of a key: all of
// {user:7}:name and {user:7}:mail is where the tag user:7 is. Where that is, the
// partition itself has written down, in a record beside the data:
//
//	write for a tag                      the ring: it belongs to 5, before that to 1
//	     │                                        │
//	     ├─ remembered? ── yes ─▶ go there        │
//	     │ no                                     ▼
//	     ├─ ask 5 for its record ─ "5" ─────────▶ 5, its owner
//	     │ none                  └ "3" ─────────▶ 3: 5 was full and sent it on
//	     ├─ ask 1 for its record ─ "1" ─────────▶ 1: older than partition 5
//	     │ none, and both are sure
//	     └─ place it on 5: the record is written if there is none
//	             └─ 5 is full ─▶ find room on 3, write "3" into 5's record
//
// A client asks at most one partition for each generation of the ring, half of
// them on average, and remembers the answer for a while. The first record found
// counts, and only one partition may write the first one, so that a tag has one
// place, whoever asks at the same time.
//
// Which partitions there are, and which server is whose master, is in the fleet's
// map, kept by a directory (package directory). Whoever replaces a master changes
// the map, and then nobody may be writing to the one before. That is the fence:
//
//	client   ask directory ──────────── write ───────── reply
//	         │◀──────── ViewTTL ────────▶│◀─ ReplyTimeout ─▶│
//	         │  the map is confirmed      │  later is uncertain
//
// A client writes only if the directory confirmed its map less than ViewTTL ago,
// counted from before it asked, and takes for done only what was answered within
// ReplyTimeout. Who replaces a master waits for both, and a tenth more. No clock of
// one machine is compared with another's. What blocks on the server has its time
// besides: its answer counts as long as the master cannot have been replaced.
//
// A thousand processes may share a directory: a confirmation sends nothing, a change
// what was changed. Each has one connection to a member that it uses.
//
// [Fleet.Client] is all of this behind one rueidis.Client, so that every structure
// of Millrace runs on a fleet unchanged, spread over the partitions by its name.
//
// # Guarantees
//
//   - A tag has one place at any time, also while partitions are added and while
//     members are down. If a partition that might have the tag cannot be asked, the
//     call fails with ErrUnavailable; it never guesses.
//   - What was reported as written was written by the master of that time.
//     Replication is asynchronous: with [Config].WaitReplicas a success is on so
//     many replicas of the map, without it a master that dies takes along what it had not yet
//     sent.
//   - A write is sent once. What became of one whose reply was lost nobody knows:
//     [millrace.ErrUncertain]. The structures of Millrace repeat theirs, which take
//     effect once all the same.
//   - When the directory cannot be reached the fleet is read-only after ViewTTL,
//     and takes writes again by itself.
//   - Adding a partition moves nothing and stops nobody but, for some milliseconds,
//     the placing of new tags.
//
// # The wrinkle
//
// What a tag has must fit one partition, and hot tags are not spread. Commands
// with keys of several tags are refused. A script counts as a write, so asking a
// structure that was never written for its length gives its name a place.
//
// A tag keeps its place when its data is gone: a record of about 100 bytes, and one
// of the partition's tags. [Fleet.Forget] gives it up.
//
// The fence counts by a clock that stands still while a machine is suspended. That is
// noticed within a fifth of a second, and nothing is written then before the directory
// has confirmed the map; but what was under way may be taken for done.
//
// A record is data like any other: a master that dies within a moment of writing
// one may take it along. A placement therefore waits, for half of ReplyTimeout at
// most, until a replica has the record too.
//
// # When not to use it
//
// While one Redis, with a replica and Sentinel, is enough: it is. When an engine
// should decide about failovers by majority, or data should spread evenly by
// itself: Redis Cluster; the same programs run there. docs/FLEET.md compares them.
//
// The design is Meshin's, who ran 160 partitions on 14 machines: a ring that grows
// by forwarding instead of moving, a directory, replicas on other nodes. The record
// left by a full partition, the fence and the two steps of adding are Millrace's.
package fleet
