// Package luacheck refuses scripts, and commands in Go, that break Millrace's rules for
// everything that touches Redis. Only tests use it.
//
// # The problem
//
// Redis reports mistakes late. A misspelt local in Lua is a global that fails when its line
// runs, in the one branch that no test covers. A key without the hash tag works until the
// first cluster. An option of Redis 7 works on the developer's server and nowhere else.
// All of this shows without a server.
//
// # The rules for a script
//
//   - Header. The file opens with the call form, a paragraph of prose and the labelled lines
//     KEYS, ARGV, Reply, Cost and Repeat. A fragment, which stands in front of scripts, lists
//     the fragments that it needs and the names that it gives instead.
//   - Names. Every global exists in Redis 6.2 and in miniredis, and none is assigned. Any
//     other global is a misspelt local, or comes from a fragment that the header does not
//     name. The syntax is Lua 5.1's.
//   - Keys. Of KEYS only KEYS[1] is read. Every text built from it or from prefix is a key
//     that the headers name, and no key of a call is a literal or an argument. Scripts that
//     touch "any key" may take keys from elsewhere.
//   - Commands. The name is a literal; the command and each option written as a literal
//     exist in Redis 6.2, and scripts may call the command.
//
// [Check] applies the rules to each script of a library as the server compiles it, with its
// fragments. [CheckGo] looks for commands newer than 6.2 in Go files. Package commands
// has the commands of Redis 6.2.
//
// # Limits
//
// The rules do not cover keys and options that reach a command through a table or a parameter,
// nor commands in Go without rueidis' builder or with their name in a variable.
package luacheck
