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

// logKey is a list: what agents did, the newest first.
func logKey(base string) string { return base + ":log" }
