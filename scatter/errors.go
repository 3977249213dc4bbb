package scatter

import (
	"context"
	"fmt"

	"github.com/millrace/millrace"
)

// errName is millrace.ErrBadName with what names may be.
var errName = millrace.ErrBadName.WithHint("Use 1 to 512 bytes without control characters, and for a group without braces.")

// Errors of this package. What is returned is derived from them and says more.
var (

	// ErrPartial means that some servers did not answer. What the others have is in
	// the result all the same; the error is a [*PartialError], which names them.
	ErrPartial = &millrace.Error{
		Code:    "partial",
		Message: "some servers did not answer, and what they have is missing",
		Hint:    "Read again when they are back, or take the value for what it is: at least so much of it as the others have.",
	}

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

	// ErrEvictable means that the server may evict what was counted when its memory is
	// full: by any key, or by those that expire, as buckets do. Nothing was written.
	ErrEvictable = &millrace.Error{
		Code:    "evictable",
		Message: "the server may evict a counter before its time",
		Hint:    "Set maxmemory-policy to noeviction, or accept the risk with AllowEvictable.",
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
