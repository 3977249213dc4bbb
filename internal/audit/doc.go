// Package audit keeps a log of the changes that people make with the pages, the HTTP API and the
// command: the author, the address, the change, the time and the result.
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
// Each new entry removes up to 100 entries of all kinds that are older than 90 days.
//
// Many actions of one kind fill the first pages of the list of all; the entries of each kind can
// be listed alone. A client that may see some names only gets as many entries as it asks for,
// however many actions others did since.
//
// # Guarantees
//
//   - An action is entered once, however often its entry is sent: the script looks for the id.
//     A request that is repeated under its Idempotency-Key has one id; it may be there twice,
//     as failed and as done.
//   - A log that cannot be written stops no action: it is logged, and the action counts.
//   - Each kind of action has at most 200 entries of at most 4 KiB.
//   - An entry that is older than 90 days goes with one of the next actions of any kind.
//   - A server whose memory is full takes an entry.
//
// # The wrinkle
//
// It is a memory aid, not evidence: a process that ends between an action and its entry leaves
// none, and every client with write access to Redis can change the list. While the server's clock
// is 90 days ahead, each action removes up to 100 entries too early.
//
// # When not to use it
//
// For the constant work of programs: writing, receiving, acknowledging. Counters count that.
package audit
