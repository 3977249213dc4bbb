package fairqueue

import "github.com/millrace/millrace"

// Shared errors in the words of this package.
var (
	errNotFound = millrace.ErrNotFound.Errorf("there is no such queue").
			WithHint("A queue begins with its first write; see which there are with: millrace queue ls")
	errStale   = millrace.ErrStale.Errorf("the receipt is stale")
	errTimeout = millrace.ErrTimeout.Errorf("the handler took too long")
)

// Errors of this package. What is returned is derived from them and says more.
var (
	// ErrEmpty means that there was no message within the time of the read.
	ErrEmpty = &millrace.Error{
		Code:    "empty",
		Message: "no message is waiting",
		Hint:    "Read with a Block to wait for one.",
	}

	// ErrPaused means that reading is off.
	ErrPaused = &millrace.Error{
		Code:    "paused",
		Message: "the queue is paused",
		Hint:    "Switch reading on again with Resume.",
	}

	// ErrCancelled ends the context of a handler whose message was cancelled, or
	// that another reader has by now.
	ErrCancelled = &millrace.Error{
		Code:    "cancelled",
		Message: "the message was cancelled, or another reader has it",
		Hint:    "Stop work on the message.",
	}

	// ErrUnhealthy ends Consume when as many handlers as may run at once hang.
	ErrUnhealthy = &millrace.Error{
		Code:    "unhealthy",
		Message: "too many handlers run longer than MaxRun",
		Hint:    "Look at where the handlers hang, and start the process anew.",
	}
)
