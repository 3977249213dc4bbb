// Package wake lets an idle consumer sleep until there is work, instead of
// asking again and again.
//
// # The mechanism
//
// A structure has a wake key, a list that holds at most one token. A script that
// makes an empty structure non-empty pushes the token; an idle consumer blocks
// on the key and takes it.
//
//	consumer: read ──▶ nothing there ──▶ Wait ──▶ token or time over ──▶ read
//	producer: write, was empty ──▶ token, unless one lies there already
//
// The token is a level, not an edge: it stays until someone takes it, so a write
// that falls between a consumer's read and its wait wakes it all the same.
//
// # The wrinkle
//
// A wake-up is best effort. A consumer may take the token and die, or a full
// server may refuse it. So nobody waits on the key for longer than a second or
// so, and everybody looks again after each wait, whatever ended it.
//
// A process blocks on one connection for each key it waits on.
package wake
