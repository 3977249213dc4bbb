package tracker

import (
	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// maxBytes is the longest name and the longest identifier.
const maxBytes = 512

// baseKey is the hash that is the tracker's record: version, life, passes,
// cursor, pass_started_ms, full_started_ms, full_ended_ms, moved_ms, added,
// confirmed, removed. All keys are made from the name, in braces, so that they lie in one
// Redis Cluster slot.
func baseKey(name string) string { return "mr:tracker:{" + name + "}" }

// idsKey is a sorted set: the identifiers, scored by when each was last seen to
// have work queued, in Unix milliseconds, and the empty one as a mark, at
// infinity.
func idsKey(base string) string { return base + ":ids" }

// CheckName returns the [millrace.ErrBadName] with which [New] refuses that name, and nil for
// one that can be a tracker's. It is for programs that look at what they were
// given before they connect.
func CheckName(name string) error {
	return names.Check(millrace.ErrBadName, "name of a tracker", name, maxBytes)
}

// CheckID returns the [ErrID] with which every call refuses that identifier, and
// nil for one of 1 to 512 bytes.
func CheckID(id string) error {
	if id == "" || len(id) > maxBytes {
		return ErrID.Errorf("an identifier is 1 to %d bytes long, not %d", maxBytes, len(id))
	}
	return nil
}

// Errors of this package. What is returned is derived from them and says more.
var (

	// ErrID means that an identifier cannot be tracked. Redis was not asked.
	ErrID = &millrace.Error{
		Code: "bad_id",
		Hint: "Use 1 to 512 bytes; track a hash of what is longer.",
	}

	// ErrSource means that the source answered what the [Source] interface does not
	// allow. Nothing was changed.
	ErrSource = &millrace.Error{
		Code: "bad_source",
		Hint: "Mend the Source: see what its interface asks for.",
	}
)
