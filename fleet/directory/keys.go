package directory

// baseKey is the hash that holds the map: version, epoch, map (its text).
const baseKey = "mr:fleet:{directory}"

// hintsKey is a sorted set: what clients cannot reach, each hint as JSON, by when
// it is to be forgotten.
func hintsKey(base string) string { return base + ":hints" }

// noKey is never there. Deleting it shows whether a server takes writes.
func noKey(base string) string { return base + ":none" }

// keys returns all keys of a directory.
func keys(base string) []string { return []string{base, hintsKey(base), noKey(base)} }
