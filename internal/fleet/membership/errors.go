package membership

import (
	"fmt"

	"github.com/millrace/millrace"
)

// ErrRefused means that a request must not be carried out, at least not now. Nothing was
// changed.
var ErrRefused = &millrace.Error{Code: "refused"}

// ErrBegun means that a call was cut off whose plan is in the map.
var ErrBegun = &millrace.Error{
	Code: "interrupted", Message: "interrupted: the change has begun, and agents go on with it",
	Hint: "Look at millrace fleet show. If no agent runs, start one, or repeat the command: it does the rest.",
}

func refused(hint, format string, args ...any) error {
	return ErrRefused.Errorf(format, args...).WithHint(hint)
}

func notFound(format string, args ...any) error {
	return millrace.ErrNotFound.Errorf("%s", fmt.Sprintf(format, args...)).WithHint("Look at millrace fleet show.")
}
