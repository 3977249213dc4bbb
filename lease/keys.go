package lease

import (
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// maxName is the longest name of a lease in bytes.
const maxName = 512

// Every key of a lease is made from its name, in braces, so that all lie in one
// Redis Cluster slot.
const keyPrefix = "mr:lease:{"

// baseKey is the lease: a text with version, fence, deadline, token, metadata and who waits.
// It has a TTL from its release on.
func baseKey(name string) string { return keyPrefix + name + "}" }

// nameOf returns the name of the lease with that base key, and whether it is one.
func nameOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, keyPrefix)
	name, end := strings.CutSuffix(name, "}")
	return name, ok && end && CheckName(name) == nil
}

// CheckName returns the [millrace.ErrBadName] with which every call refuses that name, and
// nil for one that can be a lease's. It is for programs that look at what they
// were given before they connect.
func CheckName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a lease", name, maxName)
}

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrHeld means that somebody else holds the lease. The error in whose chain
	// it is found is a [*HeldError], which says for how long.
	ErrHeld = &millrace.Error{
		Code:    "held",
		Message: "the lease is held by somebody else",
		Hint:    "Try again when it is released or expires, or acquire it with a Wait.",
	}

	// ErrLost means that the lease is not the caller's any more: it expired, or it
	// was released. Somebody else may hold it.
	ErrLost = &millrace.Error{
		Code:    "lost",
		Message: "the lease is lost",
		Hint:    "Stop what it protects and acquire it again; hold it longer if the work takes longer.",
	}

	// ErrExpired means that the lease's deadline came, as this process counts.
	ErrExpired = &millrace.Error{
		Code:    "expired",
		Message: "the lease has expired",
		Hint:    "Stop what it protects and acquire it again; hold it longer if the work takes longer.",
	}
)
