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
//   - Names. Every name is a local or a global that both Redis 6.2 and
//     miniredis have; no global is assigned, no local is left unused, and the
//     syntax is Lua 5.1's.
//   - Keys. Of KEYS only KEYS[1] is read. Every key argument of redis.call and
//     redis.pcall is built from it and from literals, and is one of those that
//     the headers of the script and its fragments say they touch. Only scripts
//     that touch "any key" may take keys from elsewhere.
//   - Commands. The name is a literal; the command and each option written as a
//     literal exist in Redis 6.2, and the command may be called from a script, where
//     it does no harm.
//
// [Check] applies them to each script of a library as the server compiles it, with
// its fragments, and [CheckGo] looks for commands newer than 6.2 in the Go files.
//
// # How a key is followed
//
// A value is the set of texts that it can have, whatever path the script takes:
//
//	local prefix = K .. ':'                  {BASE:}
//	local key = high and prefix .. 'high'    {BASE:high,
//	  or prefix .. 'low'                      BASE:low}
//	local function shard(i)
//	  return prefix .. i                     {BASE:*}
//	end
//
// Locals have what is ever assigned to them, parameters of local functions what
// any caller passes, calls what any return gives. A part that only the running
// script knows is a star, allowed behind KEYS[1] and only if a header names the
// key with a star, or an argument, in its place.
//
// # What Redis 6.2 has
//
// Package commands knows: the commands, their options, and where their keys are.
//
// # What it does not see
//
// Options that reach a command through a table, and commands in Go that are not
// written with rueidis' builder or hold their name in a variable.
package luacheck
