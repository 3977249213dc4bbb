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
// # When not to use it
//
// Not for scripts that are idempotent by nature: each answer costs a hash field
// and a command or two, and looking one up two more. Not as a user's dedupe window: the window is too short and
// is not a promise to users.
package reqid
