package expiry

import "github.com/millrace/millrace"

// ErrNotNumber means that the field of an Incr does not hold a whole number, or that the
// sum exceeds 64 bits. Nothing was changed.
var ErrNotNumber = &millrace.Error{
	Code:    "not_a_number",
	Message: "the field does not hold a whole number of 64 bits",
}

var (
	errNotFound = millrace.ErrNotFound.Errorf("there is no such field, or it has expired")

	// errIndex means that the deadlines of a hash are lost.
	errIndex = &millrace.Error{Code: "no_index"}
)
