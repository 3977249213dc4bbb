package members

import "github.com/millrace/millrace"

// Errors that package fleet exports, for packages that it imports.
var (
	// ErrUnavailable means that a server cannot be reached.
	ErrUnavailable = &millrace.Error{
		Code:    "unavailable",
		Message: "a partition cannot be reached",
		Hint:    "Look at millrace fleet show. The call can be repeated.",
	}

	// ErrUnknownServer means that a server is not the member that the map names.
	ErrUnknownServer = &millrace.Error{
		Code:    "stranger",
		Message: "a server is not the member that the directory names",
		Hint:    "Look at millrace fleet show, and restore the server's data or take it out of the fleet.",
	}
)
