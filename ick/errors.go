package ick

import "github.com/millrace/millrace"

var (
	// errName is millrace.ErrBadName with what an Ick's name may be.
	errName = millrace.ErrBadName.WithHint("Use 1 to 512 bytes without control characters; braces only as one {tag}.")

	// errNotFound is millrace.ErrNotFound in the words of this package.
	errNotFound = millrace.ErrNotFound.Errorf("there is no such Ick").
			WithHint("An Ick begins with its first add, and a channel's are NAME/0, NAME/1 and so on; see which there are with: millrace ick ls")

	// errStale is millrace.ErrStale in the words of this package.
	errStale = millrace.ErrStale.Errorf("none of the members could be committed under this token").
			WithHint("Reserve again: what is still dirty comes back with a new token.")
)

// Errors of this package. What is returned is derived from them and says more.
var (
	// errRetired means that the Ick belonged to a channel that has become smaller.
	// It is empty, and nothing was added.
	errRetired = &millrace.Error{
		Code:    "retired",
		Message: "the Ick is retired: its channel has fewer Icks now",
		Hint:    "Add through the channel, which knows how many there are.",
	}
)
