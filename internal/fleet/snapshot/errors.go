package snapshot

import (
	"errors"

	"github.com/millrace/millrace"
)

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrNoPartition means that the fleet has no partition with that number.
	ErrNoPartition = &millrace.Error{
		Code: "not_found",
		Hint: "Look at millrace fleet show for the partitions that there are.",
	}

	// ErrNoMember means that no member of a partition has data that is worth a
	// snapshot: none answers, or none is in step with the master.
	ErrNoMember = &millrace.Error{
		Code:    "unavailable",
		Message: "no member of the partition can be saved",
		Hint:    "Look at millrace fleet show. The keeper goes on by itself when a member is back.",
	}

	// ErrFailed means that a member did not save its data. The snapshot that was there
	// before is left.
	ErrFailed = &millrace.Error{
		Code:    "failed",
		Message: "a member did not save its data",
		Hint:    "Look at the member's log, and at the folder and the room that its dir has.",
	}

	// ErrArchive means that a snapshot is not in the archive, or that old ones could
	// not be removed there. The member has the snapshot all the same.
	ErrArchive = &millrace.Error{
		Code:    "archive_failed",
		Message: "the snapshot was not archived",
		Hint:    "See that the archive's folder is there, can be written to and has room.",
	}
)

// errBusy means that something else goes on, and that it is to be tried again soon.
var errBusy = errors.New("it is not its turn")
