package snapshot

import (
	"errors"

	"github.com/millrace/millrace"
)

// Errors of this package. Calls return errors derived from them.
var (
	// ErrNoMember means that no member of a partition can be saved: none answers, or none
	// is in step with the master.
	ErrNoMember = &millrace.Error{
		Code:    "unavailable",
		Message: "no member of the partition can be saved",
		Hint:    "Run millrace fleet show. The keeper continues by itself when a member is back.",
	}

	// ErrFailed means that a member did not save its data. Its previous snapshot stays.
	ErrFailed = &millrace.Error{
		Code:    "failed",
		Message: "a member did not save its data",
		Hint:    "Read the member's log, and check the folder and the free space of its dir.",
	}

	// ErrArchive means that a snapshot is not in the archive, or that old ones could not be
	// removed there. The member has the snapshot.
	ErrArchive = &millrace.Error{
		Code:    "archive_failed",
		Message: "the snapshot was not archived",
		Hint:    "Check that the archive's folder exists, is writable and has free space.",
	}
)

// Errors of files that a partition is to go on with.
var (
	// ErrFile means that a file is not a complete snapshot of a member of a fleet.
	ErrFile = &millrace.Error{
		Code:    "bad_file",
		Message: "the file is not a snapshot of a partition",
		Hint:    "Take a file TIME-FLEET-PARTITION.rdb of the archive, or the dump.rdb of a member.",
	}

	// ErrNotLoaded means that a member has not loaded a file. Its own data may be lost.
	ErrNotLoaded = &millrace.Error{
		Code:    "not_loaded",
		Message: "the member did not load the file",
		Hint:    "Read the member's log, and repeat the command.",
	}
)

// errBusy means that another operation runs, and that a retry may soon succeed.
var errBusy = errors.New("it is not its turn")
