// Package script is the one way in which Millrace runs Lua on Redis.
//
// A script lives in a .lua file of its own, is embedded into the binary, takes
// one key (the base key of its structure, from which it derives the others) and
// opens with a header that says how it is called, what it costs and why it may
// be repeated; package luacheck holds every script to that. Shared passages are
// fragments: files that are put in front of the scripts that need them.
//
// Calls go out as EVALSHA and fall back to EVAL when the server does not know
// the script, so a restart, a failover or SCRIPT FLUSH is never noticed. Lost
// replies and servers in passing trouble are met with a repeat (package retry).
// A cancelled context returns at once.
package script
