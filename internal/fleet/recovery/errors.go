package recovery

import "github.com/millrace/millrace"

// Errors of this package. Calls return errors derived from them.
var (
	// ErrNoCopy means that no copy of the map was found.
	ErrNoCopy = &millrace.Error{
		Code:    "no_copy",
		Message: "no copy of the map was found",
		Hint:    "Name other members with --member, and the folder of the snapshots with --archive: FLEET.map there is a copy.",
	}

	// ErrSeveralFleets means that copies of several fleets were found.
	ErrSeveralFleets = &millrace.Error{
		Code: "several_fleets",
		Hint: "Name members of one fleet with --member.",
	}

	// ErrIncomplete means that the newest copy lacks a partition. By such a map tags would be
	// placed a second time.
	ErrIncomplete = &millrace.Error{
		Code: "incomplete",
		Hint: "Start the members of that partition, and name them with --member: they have a newer copy.",
	}

	// ErrForked means that the directory was changed after it had lost maps: there are two
	// maps of one epoch, and either may have changes that the other one lacks.
	ErrForked = &millrace.Error{
		Code: "forked",
		Hint: "Decide with millrace fleet recover --from COPY: the address of a member whose map is right, or the word directory. With --dry-run it shows what that one has.",
	}

	// ErrExists means that the directory has another fleet. Nothing was changed.
	ErrExists = &millrace.Error{
		Code: "exists",
		Hint: "Name an empty directory, or that of this fleet.",
	}
)
