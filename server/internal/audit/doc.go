// Package audit keeps a log of what people changed with the pages and the HTTP API: who, from
// where, what, when, and what came of it.
//
// # The problem
//
// A queue is paused at night, and in the morning nobody knows by whom. The log of a process
// is on another machine, and ends with it.
//
// # The mechanism
//
// The last 1,000 actions are one list in the Redis of the structures. Each entry has the
// server's time, and is written after its action, with the result.
//
// # Guarantees
//
//   - A log that cannot be written stops no action: it is logged, and the action counts.
//   - The list has at most 1,000 entries of at most 10 KiB.
//   - A server whose memory is full takes an entry.
//
// # The wrinkle
//
// It is a memory aid, not evidence: a process that ends between an action and its entry leaves
// none, and every client with write access to Redis can change the list.
//
// # When not to use it
//
// For what programs do all the time: writing, receiving, acknowledging. Counters count that.
package audit
