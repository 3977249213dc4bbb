package membership

import (
	"fmt"

	"github.com/millrace/millrace"
)

// ErrRefused means that a request must not be carried out, at least not now. Nothing was
// changed.
var ErrRefused = &millrace.Error{Code: "refused"}

func refused(hint, format string, args ...any) error {
	return ErrRefused.Errorf(format, args...).WithHint(hint)
}

func notFound(format string, args ...any) error {
	return millrace.ErrNotFound.Errorf("%s", fmt.Sprintf(format, args...)).WithHint("Look at millrace fleet show.")
}
