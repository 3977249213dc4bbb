package expiry

import "strings"

// hashKeys returns all keys of a shard of hashes with that base key. A star stands
// for the name of a hash.
func hashKeys(base string) []string {
	return []string{
		base,                 // hash: version, set, deleted, reaped, repaired
		base + valuesPart,    // hash: field -> value
		base + deadlinesPart, // sorted set: field -> deadline in Unix milliseconds, for those that have one
		base + ":due",        // sorted set: hash -> its earliest deadline, or before that
		base + ":req",        // hash: answers by request id, see package reqid
		base + ":req_before", // hash: the same, the ones before
	}
}

const (
	valuesPart    = ":h:*"
	deadlinesPart = ":t:*"
)

// valuesKey is the hash that holds the values of a hash. There is one exactly if
// the hash has fields, expired ones included.
func valuesKey(base, name string) string { return base + strings.TrimSuffix(valuesPart, "*") + name }

// deadlinesKey is the sorted set that holds the deadlines of a hash.
func deadlinesKey(base, name string) string {
	return base + strings.TrimSuffix(deadlinesPart, "*") + name
}

// hashOf returns the name of the hash that a key of the shard with that base key
// belongs to, and whether there is one.
func hashOf(base, key string) (string, bool) {
	for _, prefix := range []string{valuesKey(base, ""), deadlinesKey(base, "")} {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			return name, checkName("hash", name) == nil
		}
	}
	return "", false
}
