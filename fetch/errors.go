package fetch

import "github.com/millrace/millrace"

var errName = millrace.ErrBadName.WithHint("Use 1 to 200 bytes for a cache and 1 to 300 for a key, without braces and control characters; a cache's name has no slash. Hash what is longer.")

// Returned errors are derived from these and say more.
var (
	// ErrFailed means that a load failed in another process less than [Config].Errors
	// ago. The message has its error.
	ErrFailed = &millrace.Error{
		Code:    "load_failed",
		Message: "the computation failed a moment ago",
		Hint:    "Look for the cause where it was computed. It is tried again within a second or so.",
	}

	// ErrPanicked means that a load panicked. The stack is in the log.
	ErrPanicked = &millrace.Error{
		Code:    "panicked",
		Message: "the computation panicked",
		Hint:    "Look for its stack in the log.",
	}

	// ErrEncoding means that a value cannot be written as JSON, or that two callers
	// fetch one key as different types.
	ErrEncoding = &millrace.Error{
		Code: "bad_encoding",
		Hint: "Use one type for each key, and one that JSON can hold, []byte or string.",
	}
)
