// Package connect has what the command and the measurements need of connections beside package
// dial: lists of servers, and an embedded Redis.
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
