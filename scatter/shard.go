package scatter

import (
	"math/rand/v2"
	"sync/atomic"
	"unicode/utf16"

	"github.com/millrace/millrace/ring"
)

// Shard says to which of n servers, from 0 on, a session with that shard key goes. It
// must be safe for concurrent use. One that answers with something else has the flush
// fail with [millrace.ErrBadArgument].
type Shard func(key string, n int) int

// RingHash sends a shard key always to the same server: the key's [ring.Position]
// modulo n.
func RingHash(key string, n int) int { return int(ring.Position(key) % uint64(n)) }

// JavaHash sends a shard key to the server to which a Java program sends it that takes
// Math.abs(key.hashCode()) % n, and so does anything in another language that has
// Java's hash: s[0]*31^(m-1) + s[1]*31^(m-2) + ... + s[m-1] in 32 bits over the m
// UTF-16 code units of the key, which is UTF-8 here.
//
// For the one hash that has no absolute value in 32 bits, -2147483648, Java's own line
// gives a negative number. It is taken for 2147483648 here.
func JavaHash(key string, n int) int {
	var hash int32
	var units [2]uint16
	for _, r := range key {
		for _, unit := range utf16.AppendRune(units[:0], r) {
			hash = 31*hash + int32(unit)
		}
	}
	positive := int64(hash)
	if positive < 0 {
		positive = -positive
	}
	return int(positive % int64(n))
}

// RoundRobin sends one session after the other to the next server, whatever its key:
// the load is even, and each process is connected to all servers.
func RoundRobin() Shard {
	var next atomic.Uint64
	return func(_ string, n int) int { return int((next.Add(1) - 1) % uint64(n)) }
}

// Sticky sends all sessions of this process to one server, drawn by lot, whatever
// their keys: each process has one connection.
func Sticky() Shard {
	lot := rand.Uint64()
	return func(_ string, n int) int { return int(lot % uint64(n)) }
}
