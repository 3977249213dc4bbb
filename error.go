package millrace

import (
	"errors"
	"fmt"
)

// Errors that several packages share. The errors that calls return are derived from
// these and say more.
var (
	// ErrBadArgument means that a setting or an argument is invalid. No command was sent.
	ErrBadArgument = &Error{Code: "bad_argument", Message: "invalid argument"}

	// ErrBadName means that a name is invalid. No command was sent.
	ErrBadName = &Error{
		Code:    "bad_name",
		Message: "invalid name",
		Hint:    "Use 1 to 512 bytes without braces and control characters.",
	}

	// ErrNotFound means that the structure, or the item in it, does not exist.
	ErrNotFound = &Error{Code: "not_found", Message: "there is nothing of that name"}

	// ErrFull means that Redis has reached its maxmemory and refused the write.
	// Nothing was written.
	ErrFull = &Error{
		Code:    "full",
		Message: "redis is out of memory and refuses writes that need more",
		Hint:    "What drains still works: let consumers catch up, or raise maxmemory.",
	}

	// ErrBroken means that a key of the structure has foreign content. Nothing was
	// changed.
	ErrBroken = &Error{
		Code:    "broken",
		Message: "a key of the structure holds something else",
		Hint:    "Look at what is stored there, and delete it or choose another name.",
	}

	// ErrVersion means that the structure has a wire version that this Millrace does
	// not support. Nothing was changed.
	ErrVersion = &Error{
		Code:    "unknown_version",
		Message: "the structure is of a version that this Millrace does not know",
		Hint:    "Use the Millrace that wrote it.",
	}

	// ErrTooLarge means that a single item is too large for one call to Redis. Nothing
	// was changed.
	ErrTooLarge = &Error{
		Code:    "too_large",
		Message: "the item is larger than one call carries",
		Hint:    "Keep what is large elsewhere, and store where it is.",
	}

	// ErrUncertain means that the call may have taken effect or not.
	ErrUncertain = &Error{
		Code:    "uncertain",
		Message: "the call may or may not have taken effect",
		Hint:    "Look at what is there, and repeat the call if it is harmless.",
	}

	// ErrPartial means that some servers did not answer. The results of the others
	// were returned before the error.
	ErrPartial = &Error{
		Code:    "partial",
		Message: "servers did not answer, and what they have is missing",
		Hint:    "Take the list for what it is, and ask again when they are back.",
	}

	// ErrEvictable means that the server may evict the structure's keys when its
	// memory is full. Nothing was written.
	ErrEvictable = &Error{
		Code:    "evictable",
		Message: "the server may evict keys before their time",
		Hint:    "Set maxmemory-policy to noeviction or to a volatile-* policy, or accept the risk with AllowEvictable.",
	}

	// ErrStale means that a receipt or token is no longer valid: its work was settled
	// or handed out again. Nothing was changed for it.
	ErrStale = &Error{
		Code:    "stale",
		Message: "the receipt or token is stale",
		Hint:    "Stop the work; if it is not done, it comes again with another receipt.",
	}

	// ErrTimeout means that a handler or a computation took longer than its Timeout.
	ErrTimeout = &Error{
		Code:    "timeout",
		Message: "the work took too long",
		Hint:    "Raise Timeout, or make the work smaller.",
	}
)

// Error is an error that people and programs can both act on. Packages declare
// sentinels and derive the errors they return with [Error.Wrap] and
// [Error.Errorf]; errors.Is finds the sentinel.
type Error struct {
	Code    string // stable, lower case with underscores: "stale", "not_found"
	Message string // one sentence without a final stop
	Hint    string // what to do next, a whole sentence; may be empty
	Err     error  // the cause; may be nil

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

// Errorf returns an error derived from e with another message, formatted as by
// fmt.Sprintf.
func (e *Error) Errorf(format string, args ...any) *Error {
	d := e.derive()
	d.Message = fmt.Sprintf(format, args...)
	return d
}

// WithHint returns an error derived from e with another hint.
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

// Code returns the code of the first [Error] in err's chain, or "".
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Hint returns the first hint of an [Error] in err's chain, or "".
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
