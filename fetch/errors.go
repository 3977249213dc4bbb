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
		Hint:    "The message has the error of the other process. A load is tried again within about a second.",
	}

	// ErrPanicked means that a load panicked. The stack is in the log.
	ErrPanicked = &millrace.Error{
		Code:    "panicked",
		Message: "the computation panicked",
		Hint:    "The log has its stack.",
	}

	// ErrEncoding means that a value cannot be encoded as JSON, or that two callers fetch one
	// key as different types.
	ErrEncoding = &millrace.Error{
		Code: "bad_encoding",
		Hint: "Use one type for each key: []byte, string or one that JSON can encode.",
	}
)
