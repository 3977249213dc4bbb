package expiry

// valueKey is a string: a value's deadline and its payload.
func valueKey(base, name string) string { return base + ":v:" + name }

// dueKey is a sorted set: name of a value -> its deadline.
func dueKey(base string) string { return base + ":due" }

// keysOfKeys returns all keys of the shard of values with that base key, which is
// a hash: version and counters. A star stands for a value's name.
func keysOfKeys(base string) []string {
	return []string{
		base, valueKey(base, "*"), dueKey(base),
		base + ":req",        // hash: answers by request id, see package reqid
		base + ":req_before", // hash: the same, the ones before
	}
}
