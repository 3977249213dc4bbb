package lease

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace"
)

// Returned errors are derived from these and say more.
var (
	// ErrHeld means that another holder has the lease. [Holder] returns the remaining time,
	// and what the holder says of itself.
	ErrHeld = &millrace.Error{
		Code:    "held",
		Message: "the lease is held by another holder",
		Hint:    "Try again when it is released or expires, or acquire it with a Wait.",
	}

	// ErrLost means that the caller no longer holds the lease: it expired or was
	// released. Another holder may have it.
	ErrLost = &millrace.Error{
		Code:    "lost",
		Message: "the lease is lost",
		Hint:    "Stop what it protects and acquire it again; hold it longer if the work takes longer.",
	}

	// ErrExpired means that the deadline of the lease passed by this process's clock.
	ErrExpired = &millrace.Error{
		Code:    "expired",
		Message: "the lease has expired",
		Hint:    "Stop what it protects and acquire it again; hold it longer if the work takes longer.",
	}
)

// Holder returns the lease that a caller found held, without its Token: err is [ErrHeld]. The
// Remaining time counts from the call.
func Holder(err error) (lease Info, ok bool) {
	held, ok := errors.AsType[*heldError](err)
	if !ok {
		return Info{}, false
	}
	return held.Info, true
}

// heldError is [ErrHeld] with the lease.
type heldError struct{ Info }

// Error has the remaining time and the holder's metadata.
func (e *heldError) Error() string {
	text := fmt.Sprintf("the lease %q is held for another %s", e.Name, e.Remaining)
	if e.Metadata != "" {
		text += fmt.Sprintf(" by %q", e.Metadata)
	}
	return text
}

func (e *heldError) Unwrap() error { return ErrHeld }
