// Package wake lets idle readers sleep until there is work, instead of polling.
//
// A structure has a wake key, a list of at most one token. A script that makes an empty structure
// non-empty pushes the token. An idle consumer blocks on the key with [Wait] and takes it.
//
//	consumer: read ──▶ nothing ──▶ Wait ──▶ token or timeout ──▶ read
//	producer: write, was empty ──▶ token, unless there is one
//
// The token stays until a consumer takes it, so a write between a consumer's read and its wait
// wakes it all the same. A process blocks on one connection for each key it waits on; for
// thousands of names there is package hub.
//
// # The wrinkle
//
// A wake-up is best effort: a consumer may take the token and die, and a full server may refuse it.
// So every wait has a timeout of about a second, and every waiter checks again after it.
package wake
