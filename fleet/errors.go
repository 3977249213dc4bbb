package fleet

import (
	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
)

// Errors of this package. Calls return errors derived from them, which say more.
var (
	// ErrNoTag means that a command has no key to route it by, or is not known. It was
	// not sent.
	ErrNoTag = &millrace.Error{
		Code: "no_tag",
		Hint: "Send a command without a key to one partition, see Partitions.",
	}

	// ErrMixedTags means that a command, or a transaction, has keys of several tags. It was
	// not sent.
	ErrMixedTags = &millrace.Error{
		Code: "mixed_tags",
		Hint: "Give all keys that belong together the same tag in braces: {user:7}:name, {user:7}:mail.",
	}

	// ErrUnsupported means that the client of a whole fleet cannot do this.
	ErrUnsupported = &millrace.Error{
		Code: "unsupported",
		Hint: "Use the client of one partition, from Partitions.",
	}

	// ErrUnavailable means that a partition cannot be reached, so that the place of a
	// tag is not known, or its data not available. Nothing was written.
	ErrUnavailable = members.ErrUnavailable

	// ErrReadOnly means that the fleet, or a partition, takes no writes now: the
	// directory did not confirm the map in time, or a master is being replaced.
	// Nothing was written.
	ErrReadOnly = &millrace.Error{
		Code:    "read_only",
		Message: "the fleet takes no writes now",
		Hint:    "Reads go on. Look at the directory and at millrace fleet show; the call can be repeated.",
	}

	// ErrUnknownServer means that a server is not the member that the directory names:
	// it was restarted without its data, or another one listens at its address. Nothing
	// was written to it.
	ErrUnknownServer = members.ErrUnknownServer

	// ErrClosed means that the fleet was closed.
	ErrClosed = &millrace.Error{Code: "closed", Message: "the fleet's client was closed"}
)
