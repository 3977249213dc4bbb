package fairqueue

import "github.com/millrace/millrace"

// Errors of the root package in the words of this one.
var (
	errNotFound = millrace.ErrNotFound.Errorf("there is no such queue").
			WithHint("The first write creates a queue. List the queues with: millrace queue ls")
	errBroken        = millrace.ErrBroken.Errorf("a key is missing")
	errStale         = millrace.ErrStale.Errorf("the receipt is stale")
	errNoTenantFlows = millrace.ErrBadArgument.Errorf("limits need flows that are tenants, and the queue has streams").
				WithHint("Use a queue without streams. To divide a queue into streams, clear its limits first.")
	errTimeout = millrace.ErrTimeout.Errorf("the handler took too long")
)

// Errors of this package.
var (
	// ErrEmpty means that there was no message within the time of the read.
	ErrEmpty = &millrace.Error{
		Code:    "empty",
		Message: "no message is waiting",
		Hint:    "Read with a Block to wait for one.",
	}

	// ErrPaused means that reading is paused.
	ErrPaused = &millrace.Error{
		Code:    "paused",
		Message: "the queue is paused",
		Hint:    "Continue reading with Resume.",
	}

	// ErrCancelled ends the context of a handler whose message was cancelled or was
	// delivered to another reader.
	ErrCancelled = &millrace.Error{
		Code:    "cancelled",
		Message: "the message was cancelled, or another reader has it",
		Hint:    "Stop work on the message.",
	}

	// ErrGap means that the positions before the one of a draft are not in the queue. The
	// draft was not written.
	ErrGap = &millrace.Error{
		Code:    "position_gap",
		Message: "the source has an earlier position in the queue",
		Hint:    "Look where the source is (Queue.Sources, or millrace queue position), and write from there. Set the position if what lies between is to be left out.",
	}

	// ErrSources means that the queue has its largest number of sources. The draft was not
	// written.
	ErrSources = &millrace.Error{
		Code:    "too_many_sources",
		Message: "the queue has 1,000 sources",
		Hint:    "Number the messages of many tenants as one source, or forget sources that ended (Queue.Sources, or millrace queue position, lists them): set their positions to 0.",
	}

	// ErrBatch means that the batch of a draft takes no more messages: it has as many as it was to have, was closed or
	// cancelled, is done, or is forgotten. The draft was not written.
	ErrBatch = &millrace.Error{
		Code:    "batch_over",
		Message: "the batch takes no more messages",
		Hint:    "Create another batch, or one without a total if more messages may come.",
	}

	// ErrTenantFull means that the tenant has as many waiting messages as its limit allows.
	// The draft was not written.
	ErrTenantFull = &millrace.Error{
		Code:    "tenant_full",
		Message: "too many messages of the tenant wait",
		Hint:    "Write again when some were handled, or change MaxWaiting of its limits.",
	}

	// ErrUnsettled means that the queue did not answer when Consume ended, so that messages
	// were not settled. Each is delivered again after its visibility.
	ErrUnsettled = &millrace.Error{
		Code:    "unsettled",
		Message: "messages were not settled before the end",
		Hint:    "Expect those that were handled a second time, unless only the answer was lost: the work must do no harm when it is repeated.",
	}

	// ErrUnhealthy ends Consume when all its handlers hang.
	ErrUnhealthy = &millrace.Error{
		Code:    "unhealthy",
		Message: "too many handlers run longer than MaxRun",
		Hint:    "Find out where the handlers hang, and restart the process.",
	}
)
