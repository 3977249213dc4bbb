// Package wake lets idle readers sleep until there is work, instead of polling.
//
// # A structure's own key
//
// A structure has a wake key, a list of at most one token. A script that makes an empty structure
// non-empty pushes the token. An idle consumer blocks on the key with [Wait] and takes it.
//
//	consumer: read ──▶ nothing ──▶ Wait ──▶ token or timeout ──▶ read
//	producer: write, was empty ──▶ token, unless there is one
//
// The token stays until a consumer takes it, so a write between a consumer's read and its wait
// wakes it all the same. A process blocks on one connection for each key it waits on.
//
// # A process's list
//
// A process that waits for thousands of names would need a connection for each. Instead it has
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
// A wake-up is best effort: a consumer may take the token and die, a full server may refuse it,
// and the list of a process may lie on a server that does not answer. So every wait has a timeout
// of about a second, and every waiter checks again after it.
package wake
