package directory

// baseKey is the hash that holds the map: version, epoch, map (its text).
const baseKey = "mr:fleet:{directory}"

// logKey is a list: what agents did, the newest first.
func logKey(base string) string { return base + ":log" }
