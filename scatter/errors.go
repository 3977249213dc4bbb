package scatter

import (
	"context"
	"fmt"

	"github.com/millrace/millrace"
)

// errName is millrace.ErrBadName with what names may be.
var errName = millrace.ErrBadName.WithHint("Use 1 to 512 bytes without control characters, and for a group without braces.")

// errPartial is millrace.ErrPartial in the words of this package.
var errPartial = millrace.ErrPartial.Errorf("some servers did not answer, and what they have is missing").
	WithHint("Read again when they are back, or take the value for what it is: at least so much of it as the others have.")

// Errors of this package. What is returned is derived from them and says more.
var (

	// ErrType means that a key holds something else than it is used for.
	ErrType = &millrace.Error{
		Code:    "wrong_type",
		Message: "the key holds something else",
		Hint:    "Use a name that nothing else uses.",
	}

	// ErrOverflow means that a sum does not fit into 64 bits.
	ErrOverflow = &millrace.Error{
		Code:    "overflow",
		Message: "the sum does not fit into 64 bits",
		Hint:    "Count by time buckets, or under another name.",
	}

	// ErrTooMany means that a set, or a sorted set, has more members than a gather may
	// hold.
	ErrTooMany = &millrace.Error{
		Code:    "too_many",
		Message: "there are more members than a gather may hold",
		Hint:    "Raise Config.MaxMembers, or count by time buckets.",
	}
)

// errSilent is why a call ends whose server took longer than Config.Timeout.
var errSilent = fmt.Errorf("no answer within Config.Timeout: %w", context.DeadlineExceeded)

// refusals are the errors that scripts answer with, by their codes.
var refusals = map[string]*millrace.Error{"TYPE": ErrType, "OVERFLOW": ErrOverflow}
