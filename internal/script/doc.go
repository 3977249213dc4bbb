// Package script is the one way in which Millrace runs Lua on Redis.
//
// # A folder of scripts
//
// A package embeds its .lua files as one folder, and [Load] makes a [Library] of
// it. A file is a script or a fragment. A fragment is a passage that several
// scripts share; it stands in front of those whose header names it. What a header
// says is what the library goes by:
//
//	-- lease.acquire(K) token ttl -> {outcome, fence}     the script's name
//	-- fragment open: a lease's keys and its state        or the fragment's
//	--
//	-- Needs    open, lane           the fragments in front of it
//	-- Touches  K, due, v:ARGV[1]    the keys that it may touch
//	-- Makes    K hash version 1     what a new structure's keys begin with
//	-- Beside   wake              a key that it tries to touch, and that is not declared
//	-- Without  v:ARGV[1]            the key without which there is nothing to do
//	-- Replica  may answer           it writes nothing, and what it says may be a little old
//
// Every script finds two locals: K, the base key that it was called with, and
// prefix, with which the structure's other keys begin: K and a colon, unless the
// package says otherwise. Names of keys in a header are relative to prefix.
//
// # A call
//
//	         ┌────────────── transient: again, after a pause ──────────────┐
//	         ▼                                                             │
//	Run ──▶ EVALSHA ──▶ NOSCRIPT ──▶ EVAL ──▶ reply, error ──▶ table of errors ──▶ caller
//
// Calls go out as EVALSHA and fall back to EVAL when the server does not know the
// script, so a restart, a failover or SCRIPT FLUSH is never noticed. Lost replies and
// servers in passing trouble are met with a repeat (package retry); a script with
// the fragment lane runs once all the same (package reqid). A cancelled context
// returns at once. The answer is read with a [Reply], and the errors of servers and
// scripts become those of [millrace] in one table.
//
// A script that a replica may answer goes out as EVALSHA_RO where the server has it, from
// Redis 7.0 on. So a client that sends reads to replicas (SendToReplicas of rueidis, Reads of
// a fleet) sends it there. A script whose answer decides what is written next, or who holds
// what, never says so, even if it writes nothing.
//
// # On a Cluster
//
// A slot may be on its way to another node, some of its keys here and some there. A
// script that is given only one key would run on half of a structure. So on a Cluster
// the runner declares every key that the script may touch, and Redis refuses with
// TRYAGAIN while they are apart. On other servers only the base key is sent: declared
// keys cost time, and serve nothing there.
//
// Redis also refuses, for as long as the slot moves, if a declared key does not exist.
// So the keys of a structure all exist from its first write on, empty ones as
// placeholders. Only a new structure has none, and no script can begin it in a slot
// that moves. There the runner makes the keys one by one, with commands on a single
// key, which Redis sends to where the key belongs, and then repeats the call. A script
// that only reads finds no structure at all, and is answered by the node on which one
// would begin.
//
// Where keys come and go, a call that declares one which is not there waits until the
// slot has moved. If the script has nothing to do without it, its header says so behind
// Without, and the runner answers with nil once neither node has that key. A structure
// whose keys all come and go declares the key none, which never exists.
//
// A key that comes and goes, and without which a call does its work, is named behind
// Beside: it is not declared, and the script touches it with redis.pcall.
//
// A star in Touches stands for what only the running script knows, and "any key" for
// keys that have the callers' own names. A script that touches such keys declares the
// base key alone: it is one that no moving slot may be expected to bear.
package script
