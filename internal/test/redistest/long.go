package redistest

import (
	"os"
	"testing"
)

// More reports whether `make more` runs, where a test may take long.
func More() bool { return os.Getenv("MILLRACE_MORE") != "" }

// Long skips a test whose time or CPU would make `make test` too long. `make more` sets MILLRACE_MORE and runs it.
func Long(t testing.TB) {
	t.Helper()
	if !More() {
		t.Skip("set MILLRACE_MORE=1, or run make more")
	}
}
