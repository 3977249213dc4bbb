package lease

import (
	"fmt"
	"time"

	"github.com/millrace/millrace"
)

// Returned errors are derived from these and say more.
var (
	// ErrHeld means that another holder has the lease. The returned error is a
	// [*HeldError], which has the remaining time.
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

// HeldError describes the holder of a lease. It wraps [ErrHeld].
type HeldError struct {
	Name      string
	Remaining time.Duration // until the holder's deadline
	Metadata  string        // the holder's
	Fence     int64         // the holder's
}

// Error has the remaining time and the holder's metadata.
func (e *HeldError) Error() string {
	text := fmt.Sprintf("the lease %q is held for another %s", e.Name, e.Remaining)
	if e.Metadata != "" {
		text += fmt.Sprintf(" by %q", e.Metadata)
	}
	return text
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }
