// Package audit keeps a log of the changes that people make with the pages and the HTTP API:
// the author, the address, the change, the time and the result.
//
// # The problem
//
// A queue is paused at night, and in the morning its operators do not know who paused it.
// The log of a process is on another machine, and ends with it.
//
// # The mechanism
//
// Each kind of action has a list of its last 200 entries in the Redis of the structures, so a
// script that pauses tenants all day does not replace the deletion of last week. An entry has
// the id of its action and the server's time, and is written after its action, with the result.
//
// # Guarantees
//
//   - An action is entered once, however often its entry is sent: the script looks for the id.
//     A request that is repeated under its Idempotency-Key has one id; it may be there twice,
//     as failed and as done.
//   - A log that cannot be written stops no action: it is logged, and the action counts.
//   - Each kind of action has at most 200 entries of at most 4 KiB.
//   - A server whose memory is full takes an entry.
//
// # The wrinkle
//
// It is a memory aid, not evidence: a process that ends between an action and its entry leaves
// none, and every client with write access to Redis can change the list.
//
// # When not to use it
//
// For the constant work of programs: writing, receiving, acknowledging. Counters count that.
package audit
