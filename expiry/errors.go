package expiry

import "github.com/millrace/millrace"

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrName means that a name cannot be that of a namespace, a hash or a key.
	// Redis was not asked.
	ErrName = &millrace.Error{
		Code: "bad_name",
		Hint: "Use 1 to 512 bytes without braces and control characters.",
	}

	// ErrConfig means that a setting or an argument cannot be had. Redis was not
	// asked.
	ErrConfig = &millrace.Error{Code: "bad_argument"}

	// ErrNotFound means that there is no such field or key, or that its time is
	// over.
	ErrNotFound = &millrace.Error{
		Code:    "not_found",
		Message: "there is nothing of that name, or its time is over",
	}

	// ErrNotNumber means that what should be counted up is not a whole number, or
	// would be more than 64 bits hold. Nothing was changed.
	ErrNotNumber = &millrace.Error{
		Code:    "not_a_number",
		Message: "the field does not hold a whole number of 64 bits",
	}

	// ErrEvictable means that the server may evict any key when its memory is
	// full, and so a value before its time. Nothing was written.
	ErrEvictable = &millrace.Error{
		Code:    "evictable",
		Message: "the server may evict a value before its time",
		Hint:    "Set maxmemory-policy to noeviction or to a volatile-* policy, or accept the risk with AllowEvictable.",
	}
)
