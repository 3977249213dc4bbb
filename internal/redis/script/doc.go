// Package script runs all Lua scripts of Millrace on Redis.
//
// # A folder of scripts
//
// A package embeds its .lua files as one folder, and [Load] makes a [Library] of it. A file
// is a script or a fragment. A fragment is code that several scripts share; it is put in
// front of the scripts whose headers name it. The library reads these lines of a header:
//
//	-- lease.acquire(K) token ttl -> {outcome, fence}     the script's name
//	-- fragment open: a lease's keys and its state        or the fragment's
//	--
//	-- Needs    open, lane           the fragments in front of it
//	-- Touches  K, due, v:ARGV[1]    the keys that it may touch
//	-- Makes    K hash version 1     the first values of a new structure's keys
//	-- Beside   wake              a key that it tries to touch, and that is not declared
//	-- Without  v:ARGV[1]            the key without which there is nothing to do
//	-- Replica  may answer           it writes nothing, and its answer may be a little old
//	-- Repeat   harmless: it only reads
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
// Calls are sent as EVALSHA, and as EVAL if the server does not know the script, as after a
// restart, a failover or SCRIPT FLUSH. Lost replies and transient errors are retried
// (package retry); a script with the fragment lane takes effect once all the same (package
// reqid). A call returns at once when its context is cancelled. A [Reply] reads the answer,
// and one table maps the errors of servers and scripts to those of [millrace].
//
// Servers have Lua's library struct; imitations of Redis do not. There the first line of a script that
// uses it fails, and from then on the Runner sends such scripts with struct.lua in front.
//
// A call that ends without an answer, after a try that may have taken effect, fails with
// [millrace.ErrUncertain], which wraps the error of the connection or of the context. A script
// that only reads fails with that error alone.
//
// A script that a replica may answer is sent as EVALSHA_RO, from Redis 7.0 on and not on a
// Cluster. So a client that sends reads to replicas sends it there. A script whose answer
// decides a later write or the holder of something must not allow that, even if it writes
// nothing.
//
// # On a Cluster
//
// While a slot moves to another node, its keys are on both. A script that declares one key
// would run on half of a structure. So on a Cluster the runner declares every key that the
// script may touch, and Redis refuses with TRYAGAIN while they are apart. Elsewhere only the
// base key is declared, since declared keys cost time.
//
// While the slot moves, Redis also refuses if a declared key does not exist. So all keys of
// a structure exist from its first write on, empty ones as placeholders. A new structure has
// none, and no script can create it in a moving slot: there the runner creates the keys one
// by one, with commands on single keys, and repeats the call. A script that only reads finds
// no structure.
//
// A call that declares a key that comes and goes waits, without that key, until the slot has
// moved. If the script has nothing to do without it, its header names it behind Without, and
// the runner answers nil once neither node has that key. A structure whose keys all come and
// go declares the key none, which never exists.
//
// A key that comes and goes, and that a call can do without, is named behind Beside: it is
// not declared, and the script touches it with redis.pcall.
//
// A star in Touches stands for text that only the running script knows, and "any key" for
// keys that callers name. A script that touches such keys declares the base key alone, and
// may fail while its slot moves.
package script
