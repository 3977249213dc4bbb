package fairqueue

import (
	"github.com/millrace/millrace/internal/names"
)

// maxName is the longest name of a queue in bytes.
const maxName = 512

// Every key of a queue is made from its name, in braces, so that all lie in one
// Redis Cluster slot.
const keyPrefix = "mr:queue:{"

// baseKey is the hash that is the queue: version, streams, per_tenant, span,
// group, cursor, paused, and counters.
func baseKey(name string) string { return keyPrefix + name + "}" }

// keys returns all keys of the queue with that base key. A star stands for the
// index of a stream.
func keys(base string) []string {
	return []string{
		base,
		base + ":s:*",        // streams: the messages that wait or are in flight
		base + ":waits",      // string: how many wait in each stream, four bytes each
		base + ":due",        // sorted set: stream, or d for those set aside -> when to look after it
		base + ":delayed",    // sorted set: entry of later -> when it is due
		base + ":later",      // stream: messages that are set aside
		base + ":places",     // hash: message -> where its entry is, for those that moved
		base + ":dead",       // stream: messages that were delivered too often
		base + ":dedupe",     // hash: dedupe id -> message
		base + ":dedupes",    // sorted set: dedupe id -> until when it counts
		base + ":wake",       // list: tokens for readers that wait
		base + ":req",        // hash: answers by request id, see package reqid
		base + ":req_before", // hash: the same, the ones before
	}
}

// CheckName returns the [ErrName] with which [New] refuses that name, and nil for
// one that can be a queue's. It is for programs that look at what they were given
// before they connect.
func CheckName(name string) error {
	return names.Check(ErrName, "name of a queue", name, maxName)
}
