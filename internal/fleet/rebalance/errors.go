package rebalance

import "github.com/millrace/millrace"

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrNotMoved means that some tags stayed where they were. Which ones, and why, is
	// in Report.Kept and in the chain of the error.
	ErrNotMoved = &millrace.Error{
		Code:    "not_moved",
		Message: "some tags were not moved",
		Hint:    "Look at what the report says of each, and repeat the call for those that are to be moved all the same.",
	}

	// ErrUnknown means that a tag is nowhere: nobody has written for it yet, or its
	// place was forgotten.
	ErrUnknown = &millrace.Error{
		Code:    "not_found",
		Message: "the fleet does not know the tag",
		Hint:    "A tag is what is in the braces of a key, or all of a key without braces. Look for it with millrace fleet locate.",
	}

	// ErrTaken means that what is written down about a tag was changed by somebody
	// else: another call moves it. This one has left it alone.
	ErrTaken = &millrace.Error{
		Code:    "conflict",
		Message: "somebody else changed where the tag is",
		Hint:    "Wait until the other call that moves tags has ended, and repeat this one.",
	}
)
