// Package connect has connections for the command and the measurements that package dial does
// not have: lists of servers, and an embedded Redis.
//
// Embedded is for programs without a URL and without data to lose: it starts a private
// redis-server in a temporary folder, or, where none is installed, miniredis inside the
// process.
//
// # The wrinkle
//
// miniredis imitates Redis: it has no memory limit, no persistence, and smaller tables in
// Lua. Instance.Kind tells the two apart; callers show it to the user.
package connect
