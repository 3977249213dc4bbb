// Package commands knows, of Redis' commands, where their keys are, how long they
// may wait, and which of them Redis 6.2 has.
//
// # The problem
//
// A client that routes commands to one of many servers must find the keys of each of
// them, also of those that the program's author wrote out by hand, in much less time
// than it takes to send them. A check of scripts must know which of their arguments are
// keys, and which options are too new. Both need the same facts, and have no server to
// ask.
//
// # Where the facts come from
//
//	redis62.json   the commands, options and keys of Redis 6.2
//	newer.json     the commands that came since, and their keys
//
// The first is made from COMMAND DOCS and COMMAND INFO of a Redis 7.0 server, which
// say since when each command and option is there, and where keys stand. The second
// has the same answers of Redis 7.0 and 8.0, Valkey 8.1 and 9.1. The commands of
// Redis 8.2 to 8.10 are from the definitions of commands on redis.io, of August 2026.
// Tests compare both with the server that they run on, and name the commands that
// newer.json lacks. This adds them:
//
//	MILLRACE_TEST_SERVER=/path/to/server go test ./internal/redis/commands -run 'TestTable$' -update
//
// Vector sets are in it, which are a part of Redis 8. Commands of modules that are
// loaded apart are not.
//
// [Redis62] gives the first file alone. [EachKey] knows both, and agrees with
// the server's COMMAND GETKEYS.
//
// # How keys are found
//
// A [KeySpec] is one of few shapes, and most commands have one:
//
//	GET k                          First 1
//	DEL k k k                      First 1, Last -1
//	MSET k v k v                   First 1, Last -1, Step 2
//	EVALSHA sha 2 k k arg          First 2, Counted
//	MSETEX 2 k v k v EX 10         First 1, Counted, Step 2
//	XREAD COUNT 9 STREAMS k k 0 0  First 1, After STREAMS, Last -1, Share 2
//	XGROUP CREATE k g $            First 2
//
// For SORT and MIGRATE no shape fits, and code reads their arguments.
//
// # The wrinkle
//
// A command that the package does not know may have keys, so EachKey reports that
// it does not know them, and never that there are none. A channel is no key, not
// even that of SPUBLISH.
package commands
