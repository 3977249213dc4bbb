package rebalance

import "github.com/millrace/millrace"

// Errors of this package. Calls return errors derived from them.
var (
	// ErrNotMoved means that some tags stayed where they were. Report.Kept lists them with
	// the reasons, and the error's chain has some of these.
	ErrNotMoved = &millrace.Error{
		Code:    "not_moved",
		Message: "some tags were not moved",
		Hint:    "Read in the report why each tag stayed, and repeat the call for those that must move.",
	}

	// ErrUnknown means that a tag has no place: it was never written, or it was forgotten.
	ErrUnknown = &millrace.Error{
		Code:    "not_found",
		Message: "the fleet does not know the tag",
		Hint:    "A tag is the text in the braces of a key, or all of a key without braces. Look for it with millrace fleet locate.",
	}

	// ErrTaken means that another call changed the records of a tag: it moves the tag. This
	// call has left the tag alone.
	ErrTaken = &millrace.Error{
		Code:    "conflict",
		Message: "another call moves the tag",
		Hint:    "Wait until the other call that moves tags has ended, and repeat this one.",
	}
)
