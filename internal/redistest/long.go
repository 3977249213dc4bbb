package redistest

import (
	"os"
	"testing"
)

// Long skips a test whose time or CPU would make `make test` too long. `make more` sets MILLRACE_MORE and runs it.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("MILLRACE_MORE") == "" {
		t.Skip("set MILLRACE_MORE=1, or run make more")
	}
}
