// Package shards is the common part of packages expiry and pinned: namespaces whose hashes or
// values are spread over a fixed number of shards, each in one slot of a Redis Cluster.
//
//	record    {name}     version, number of shards          one key
//	shard     {name/0}   version, shards, counters          one of 1 to 256
//	          :due       the names by their deadlines: name -> deadline
//	          :lanes     answers of recent calls, see package reqid
//
// A [Space] is a namespace. It finds the shard of a name ([Space.At]), runs scripts and
// reads there, and reaps and repairs all shards. Package expiry adds a pair of keys for each
// hash, and package pinned one hash for the values of a shard.
//
// # The number of shards
//
// The first write stores it in the record; a client reads it once. Each shard repeats it,
// and each script compares the two: a client that knows a number from before a FLUSHALL is
// refused, reads the record again and repeats the call.
//
// # Reads
//
// A read is HGET or HMGET and a TIME behind it, in one pipeline that goroutines share. The
// deadline precedes each value; see value.lua. Only if a value is missing is the shard's
// record read, too: it may be a shard of another number.
package shards
