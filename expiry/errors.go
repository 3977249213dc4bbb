package expiry

import "github.com/millrace/millrace"

// errNotFound is millrace.ErrNotFound in the words of this package.
var errNotFound = millrace.ErrNotFound.Errorf("there is nothing of that name, or its time is over")

// Errors of this package. What is returned is derived from them and says more.
var (

	// ErrNotNumber means that what should be counted up is not a whole number, or
	// would be more than 64 bits hold. Nothing was changed.
	ErrNotNumber = &millrace.Error{
		Code:    "not_a_number",
		Message: "the field does not hold a whole number of 64 bits",
	}
)
