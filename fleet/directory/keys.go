package directory

import "strconv"

// Keys that each member of a fleet has. Package fleet has the others.
const (
	IdentityKey = "mr:fleet:id"    // which partition of which fleet it is, see Identity
	FloorKey    = "mr:fleet:floor" // the epoch below which a map is too old to place a tag by
)

// Identity returns what a member of a partition says it is.
func Identity(fleet string, partition int) string { return fleet + "/" + strconv.Itoa(partition) }

// baseKey is the hash that holds the map: version, epoch, map (its text).
const baseKey = "mr:fleet:{directory}"

// hintsKey is a sorted set: what clients cannot reach, each hint as JSON, by when
// it is to be forgotten.
func hintsKey(base string) string { return base + ":hints" }

// agentKey is a hash: who leads the agents, and until when.
func agentKey(base string) string { return base + ":agent" }

// logKey is a list: what agents did, the newest first.
func logKey(base string) string { return base + ":log" }

// noKey is never there. Deleting it shows whether a server takes writes.
func noKey(base string) string { return base + ":none" }

// keys returns all keys of a directory.
func keys(base string) []string {
	return []string{base, hintsKey(base), agentKey(base), logKey(base), noKey(base)}
}
