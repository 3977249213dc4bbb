package directory

import (
	"context"

	"github.com/millrace/millrace"
)

// Directory keeps the map of one fleet. [Redis] is the one in use; whoever has a
// store with consensus can put it in its place.
type Directory interface {
	// Load returns the map, perhaps an old one.
	Load(ctx context.Context) (*Map, error)

	// Confirm returns nil if the map with that epoch is the present one, and the
	// present one otherwise. Only the one place where the map is changed may
	// answer.
	Confirm(ctx context.Context, epoch int64) (*Map, error)

	// Change stores a map whose epoch is higher, if the present one has that epoch
	// still, 0 if there is none, and returns ErrConflict otherwise. A map that cannot
	// be used, or whose epoch is not higher, is ErrMap. A repeat after a lost reply
	// succeeds.
	Change(ctx context.Context, epoch int64, next *Map) error
}

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrNoFleet means that the directory has no map.
	ErrNoFleet = &millrace.Error{
		Code:    "not_found",
		Message: "there is no fleet in this directory",
		Hint:    "Make one with millrace fleet init, or check the directory's address.",
	}

	// ErrConflict means that somebody else changed the map. Nothing was changed, or,
	// where a reply was lost in between, what was changed has been replaced.
	ErrConflict = &millrace.Error{
		Code:    "conflict",
		Message: "the map was changed by somebody else",
		Hint:    "Look at the fleet again and repeat what is still to be done.",
	}

	// ErrUnconfirmed means that the map was stored, but no replica of the directory
	// has said that it has it.
	ErrUnconfirmed = &millrace.Error{
		Code:    "unconfirmed",
		Message: "the map was stored, but no replica of the directory has confirmed it",
		Hint:    "Look at the directory's replicas, then repeat the command: what is done already is left alone.",
	}

	// ErrMap means that what is stored is no map.
	ErrMap = &millrace.Error{
		Code:    "broken",
		Message: "the directory's map cannot be used",
		Hint:    "Restore the directory from its replica or its append-only file, or correct the map that was to be stored.",
	}

	// ErrVersion means that the map was written in a version that this one does not
	// know.
	ErrVersion = &millrace.Error{
		Code: "unknown_version",
		Hint: "Use the Millrace that wrote it.",
	}
)
