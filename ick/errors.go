package ick

import "github.com/millrace/millrace"

// ErrUncommitted means that Redis did not answer when Consume ended, so that members which the handler had
// finished were not committed. They are reserved again.
var ErrUncommitted = &millrace.Error{
	Code:    "uncommitted",
	Message: "members were not committed before the end",
	Hint:    "Expect them a second time, unless only the answer was lost: the work must do no harm when it is repeated.",
}

var (
	errName = millrace.ErrBadName.WithHint("Use 1 to 512 bytes without control characters, and without mr: in front; braces only as one {tag}.")

	errNotFound = millrace.ErrNotFound.Errorf("there is no such Ick").
			WithHint("The first add creates an Ick. A channel's Icks are NAME/0, NAME/1 and so on. List all with: millrace ick ls")

	errStale = millrace.ErrStale.Errorf("no member could be committed under this token").
			WithHint("Reserve again: what is still dirty is returned with a new token.")

	// errRetired means that the Ick belonged to a channel that has become smaller. It is
	// empty, and nothing was added.
	errRetired = &millrace.Error{
		Code:    "retired",
		Message: "the Ick is retired: its channel has fewer Icks now",
		Hint:    "Add through the channel.",
	}

	// errMoved ends the context of a handler whose Ick may have another consumer.
	errMoved = &millrace.Error{
		Code:    "moved",
		Message: "another consumer may serve this Ick now",
		Hint:    "Its marks are reserved again; none is lost.",
	}
)
