package millrace

import (
	"errors"
	"fmt"
)

// Errors that several packages share. Calls return errors that are derived from these and have
// more details.
var (
	// ErrBadArgument means that a setting or an argument is invalid. No command was sent.
	ErrBadArgument = sentinel("bad_argument", "invalid argument", "")

	// ErrBadName means that a name is invalid. No command was sent.
	ErrBadName = sentinel("bad_name", "invalid name", "Use 1 to 512 bytes without braces and control characters, and without mr: in front.")

	// ErrNotFound means that the structure, or the item in it, does not exist.
	ErrNotFound = sentinel("not_found", "there is nothing of that name", "")

	// ErrFull means that Redis has reached its maxmemory and refused the write. Nothing was
	// written.
	ErrFull = sentinel("full", "redis is out of memory and refuses writes that need more",
		"What drains still works: let consumers catch up, or raise maxmemory.")

	// ErrUnavailable means that a server refuses the call for now: it is a replica, loads its data, has too few replicas, cannot
	// write to its disk, or its Cluster is down. The call was repeated for some seconds. Nothing was changed. The server's error is the cause.
	ErrUnavailable = sentinel("unavailable", "redis refuses the call for now",
		"Look at the state of the server, and at millrace fleet show if it belongs to a fleet. The call can be repeated.")

	// ErrBroken means that a key of the structure has foreign content. Nothing was changed.
	ErrBroken = sentinel("broken", "a key of the structure holds something else",
		"Look at what is stored there, and delete it or choose another name.")

	// ErrVersion means that this Millrace does not support the structure's wire version.
	// Nothing was changed.
	ErrVersion = sentinel("unknown_version", "the structure is of a version that this Millrace does not know",
		"Use the Millrace that wrote it.")

	// ErrTooLarge means that a single item is too large for one call to Redis. Nothing was
	// changed.
	ErrTooLarge = sentinel("too_large", "the item is larger than one call carries",
		"Store large content elsewhere, and its location here.")

	// ErrUncertain means that the call may have taken effect or not: it was sent, and no answer
	// came. The error of the connection or of the caller's context is its cause.
	ErrUncertain = sentinel("uncertain", "the call may or may not have taken effect",
		"Look at what is there, and repeat the call if it is harmless.")

	// ErrPartial means that some servers did not answer. The results of the others were
	// returned before the error.
	ErrPartial = sentinel("partial", "servers did not answer, and what they have is missing",
		"Use the results of the other servers, or repeat the call later.")

	// ErrEvictable means that the server may evict the structure's keys when its memory is
	// full. Nothing was written.
	ErrEvictable = sentinel("evictable", "the server may evict keys before their time",
		"Set maxmemory-policy to noeviction or to a volatile-* policy, or accept the risk with AllowEvictable.")

	// ErrStale means that a receipt or token is no longer valid: its work was settled or
	// delivered again. Nothing was changed.
	ErrStale = sentinel("stale", "the receipt or token is stale",
		"Stop the work; if it is not done, it is delivered again with another receipt.")

	// ErrTimeout means that a handler or a computation took longer than its Timeout.
	ErrTimeout = sentinel("timeout", "the work took too long", "Raise Timeout, or make the work smaller.")
)

func sentinel(code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: hint}
}

// Error is an error for people and programs. Packages declare sentinels and derive the errors that
// they return with [Error.Wrap] and [Error.Errorf]; errors.Is finds the sentinel.
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
