package fairqueue

import (
	"github.com/millrace/millrace"
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

// CheckName returns the [millrace.ErrBadName] with which [New] refuses that name, and nil for
// one that can be a queue's. It is for programs that look at what they were given
// before they connect.
func CheckName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a queue", name, maxName)
}
