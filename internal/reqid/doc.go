// Package reqid remembers the answers to requests, so that one that is sent
// again gets the answer it missed instead of being done twice.
//
// # The problem
//
// A server may do the work and its reply may be lost. The library then sends
// the same request again. Most scripts are idempotent by nature; for the others
// the caller draws an id ([New]), sends it with every try, and the script looks
// it up first.
//
// # The mechanism
//
// [Fragment] gives scripts two functions over two hashes of the structure, a
// current and a previous one:
//
//	reqid_recall(id)          the answer remembered for id, or false
//	reqid_remember(id, text)  keeps it
//
//	            full or old
//	  current ───────────────▶ previous ───────────────▶ gone
//	  (written)   renamed      (read only)   replaced
//
// When the current hash holds 10,000 answers, or 8 MB of long ones, or is a minute
// old, it becomes the previous one. So an answer is remembered for a minute, or
// until 10,000 or 8 MB later ones, whichever comes first, and hardly more than
// 20,000 or 16 MB are kept. The library's own repeats end after seconds.
//
// # A request that its asker repeats
//
// The library repeats with the id that it drew, and a process that is killed takes
// the id along. A request that may come again from outside, to another process,
// brings a key that its asker chose, and the ids are derived from that: [With] puts
// a seed into the context, and [Next] gives the structure's first call its first
// id, the second its second.
//
//	asker          process 1        Redis         process 2
//	  │── key ────────▶│── id ────────▶│ done           │
//	  │                ✕ killed        │                │
//	  │── key ─────────────────────────┼───────────────▶│
//	  │                                │◀────────── id ─│
//	  │                        the answer that is known │
//	  │◀────────────────────────────────────────────────│
//
// Three things make that right. A script looks an answer up on the first try, too
// ([Seeded]): the number of the try behind its arguments is never 1. Calls that
// goroutines share are shared among those without a seed only. And what one call
// does at the same time in several places is numbered before it begins.
//
// # When not to use it
//
// Not for scripts that are idempotent by nature: each answer costs a hash field
// and a command or two, and looking one up two more.
//
// Not alone as a user's dedupe window. An answer is there for a minute, and on a busy
// structure for less, since 10,000 others take its place; it is best effort on a full
// server; and it lies on the server that gave it, so that a failover may lose it.
// That is no promise to users. The web service, which makes one, keeps its own answers
// by key for a day, and needs these for the gap only: from when the work was done until
// its answer was kept, a moment in which its process may be killed. Nor do most scripts
// remember that they did nothing: what found nothing to do may find something when it
// is repeated.
package reqid
