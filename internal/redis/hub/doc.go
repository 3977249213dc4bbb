// Package hub wakes the waiters of a process for thousands of names with one connection.
//
// With a wake key for each name (see package wake) a process would need a connection for each. Instead it has
// one list, on which its [Hub] blocks for all waiters, and the structures store which processes
// wait for them.
//
//	waiter:   Join ──▶ ask, and leave the process's ID ──▶ not yet ──▶ Wait ──▶ ask
//	                                                                    ▲
//	hub:      block on mr:wake:{S}:ID ──────▶ name ─────────────────────┘
//	                   ▲
//	producer: done ──▶ push the name to the list of each process that waits
//
// A waiter misses no name after its Join. The list expires ten seconds after the last push, also
// if its process died.
//
// # The wrinkle
//
// A wake-up is best effort: a full server may refuse it, and the list of a process may lie on a server
// that does not answer. So every wait has a timeout of about a second, and every waiter checks again after it.
package hub
