package millrace

import (
	"errors"
	"fmt"
)

// What several packages mean alike. What is returned is derived from these and says
// more.
var (
	// ErrBadArgument means that a setting or an argument is invalid. Redis was not
	// asked.
	ErrBadArgument = &Error{Code: "bad_argument", Message: "invalid argument"}

	// ErrBadName means that a name is invalid. Redis was not asked.
	ErrBadName = &Error{
		Code:    "bad_name",
		Message: "invalid name",
		Hint:    "Use 1 to 512 bytes without braces and control characters.",
	}

	// ErrNotFound means that there is no such thing: no structure of that name, or
	// nothing in it under the name that was asked for.
	ErrNotFound = &Error{Code: "not_found", Message: "there is nothing of that name"}

	// ErrFull means that Redis has reached its maxmemory and refused a write that
	// needs more. Nothing was written.
	ErrFull = &Error{
		Code:    "full",
		Message: "redis is out of memory and refuses writes that need more",
		Hint:    "What drains still works: let consumers catch up, or raise maxmemory.",
	}

	// ErrBroken means that a key of the structure holds something else. Nothing was
	// changed.
	ErrBroken = &Error{
		Code:    "broken",
		Message: "a key of the structure holds something else",
		Hint:    "Look at what is stored there, and delete it or choose another name.",
	}

	// ErrVersion means that the structure was written in a version that this one does
	// not know. Nothing was changed.
	ErrVersion = &Error{
		Code:    "unknown_version",
		Message: "the structure is of a version that this Millrace does not know",
		Hint:    "Use the Millrace that wrote it.",
	}

	// ErrTooLarge means that a single item is larger than one call to Redis carries.
	// Redis was not asked, or nothing was changed.
	ErrTooLarge = &Error{
		Code:    "too_large",
		Message: "the item is larger than one call carries",
		Hint:    "Keep what is large elsewhere, and store where it is.",
	}

	// ErrUncertain means that the call may have taken effect or not.
	ErrUncertain = &Error{
		Code:    "uncertain",
		Message: "nobody knows whether the call took effect",
		Hint:    "Look at what is there, and repeat the call if it is harmless.",
	}
)

// ErrPartial means that a list is not whole, because servers did not answer: what the
// others have was given before the error.
var ErrPartial = &Error{
	Code:    "partial",
	Message: "servers did not answer, and what they have is missing",
	Hint:    "Take the list for what it is, and ask again when they are back.",
}

// Error is an error that people and programs can both act on. Packages declare
// their sentinels as Errors and derive what they return from them with
// [Error.Wrap] and [Error.Errorf]; errors.Is finds the sentinel again.
type Error struct {
	Code    string // stable, lower case with underscores: "stale", "not_found"
	Message string // one sentence without a final stop, for a log
	Hint    string // what to do next, a whole sentence; empty when there is nothing to add
	Err     error  // the cause; nil when the Error is the whole story

	origin *Error // the sentinel this was derived from; nil for a sentinel
}

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether e was derived from the sentinel target.
func (e *Error) Is(target error) bool { return e.origin != nil && e.origin == target }

// Wrap returns an error derived from e that has err as its cause.
func (e *Error) Wrap(err error) *Error {
	d := e.derive()
	d.Err = err
	return d
}

// Errorf returns an error derived from e with a message of its own, made as by
// fmt.Sprintf; code and hint stay.
func (e *Error) Errorf(format string, args ...any) *Error {
	d := e.derive()
	d.Message = fmt.Sprintf(format, args...)
	return d
}

// WithHint returns an error derived from e with a hint of its own.
func (e *Error) WithHint(hint string) *Error {
	d := e.derive()
	d.Hint = hint
	return d
}

func (e *Error) derive() *Error {
	d := *e
	if d.origin == nil {
		d.origin = e
	}
	return &d
}

// Code returns the code of the first [Error] in err's chain, and "" when there
// is none.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Hint returns the hint of the first [Error] in err's chain that has one, and
// "" when none has.
func Hint(err error) string {
	for {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
}
