package replicas

// noKey is never there. Deleting it first lets a full server write the rest.
func noKey(base string) string { return base + ":none" }

// Key is the key of the counter that [Confirm] leaves on a server.
func Key(base string) string { return base + ":waits" }

// keys returns all keys that a mark touches.
func keys(base string) []string { return []string{noKey(base), Key(base)} }
