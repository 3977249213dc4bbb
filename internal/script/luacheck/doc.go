// Package luacheck refuses scripts, and commands in Go, that break Millrace's
// rules for everything that touches Redis. It is used by tests only.
//
// # The problem
//
// Redis tells late. A misspelt local in Lua is a global that fails when its
// line runs, in the one branch that no test took. A key that does not share the
// hash tag works until the first cluster. An option of Redis 7 works on the
// developer's server and nowhere else. None of this needs a server to be seen.
//
// # The rules for a script
//
//   - Header. The file opens with the call form, a paragraph of prose and the
//     labelled lines KEYS, ARGV, Reply, Cost and Repeat. A fragment, which is
//     put in front of scripts, says instead which others it needs and what it gives.
//   - Names. Every global is one that both Redis 6.2 and miniredis have, and none is
//     assigned; what else looks like a global is a misspelt local, or comes from a
//     fragment that the header does not need. The syntax is Lua 5.1's.
//   - Keys. Of KEYS only KEYS[1] is read. Every text that is built from it, or from
//     prefix, is a key that the headers of the script and its fragments name, and no
//     key of a call is a literal or an argument. Only scripts that touch "any key" may
//     take keys from elsewhere.
//   - Commands. The name is a literal; the command and each option written as a
//     literal exist in Redis 6.2, and the command may be called from a script, where
//     it does no harm.
//
// [Check] applies them to each script of a library as the server compiles it, with
// its fragments, and [CheckGo] looks for commands newer than 6.2 in the Go files.
//
// # What Redis 6.2 has
//
// Package commands knows: the commands, their options, and where their keys are.
//
// # What it does not see
//
// Keys and options that reach a command through a table or a parameter, and commands in
// Go that are not written with rueidis' builder or hold their name in a variable.
package luacheck
