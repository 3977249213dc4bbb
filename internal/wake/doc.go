// Package wake lets who is idle sleep until there is work, instead of asking again and
// again.
//
// # A structure's own key
//
// A structure has a wake key, a list that holds at most one token. A script that
// makes an empty structure non-empty pushes the token; an idle consumer blocks
// on the key with [Wait] and takes it.
//
//	consumer: read ──▶ nothing there ──▶ Wait ──▶ token or time over ──▶ read
//	producer: write, was empty ──▶ token, unless one lies there already
//
// The token is a level, not an edge: it stays until someone takes it, so a write
// that falls between a consumer's read and its wait wakes it all the same. A process
// blocks on one connection for each key it waits on.
//
// # A process's list
//
// Where a process waits for names by the thousand, that is a connection for each. There
// it has one list, on which its [Hub] blocks for all who wait, and the structures
// remember which processes wait for them.
//
//	waiter:   Join ──▶ ask, and leave the process's ID ──▶ not yet ──▶ Wait ──▶ ask
//	                                                                    ▲
//	hub:      block on mr:wake:{S}:ID ──────▶ name ─────────────────────┘
//	                   ▲
//	producer: done ──▶ push the name to the list of each process that waits
//
// A name that comes after the Join is not missed. The list leaves by itself ten seconds
// after the last push, and so does what a process that died never took.
//
// # The wrinkle
//
// A wake-up is best effort. A consumer may take the token and die, a full server may
// refuse it, and the list of a process may lie on a server that is silent. So nobody
// waits for longer than a second or so, and everybody looks again after each wait,
// whatever ended it.
package wake
