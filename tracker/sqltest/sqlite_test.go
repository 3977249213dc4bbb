// The driver takes half a minute to compile, so `make test` leaves it out.

//go:build more

package sqltest

import (
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/millrace/millrace/tracker"
)

// TestSQLite holds SQLite to the contract of sources.
func TestSQLite(t *testing.T) {
	t.Parallel()
	testContract(t, openSQLite(t))
}

// openSQLite makes a database in a file of its own.
func openSQLite(t *testing.T) database {
	t.Helper()
	const settings = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return database{connect(t, "sqlite", filepath.Join(t.TempDir(), "work.db")+settings), tracker.SQLite}
}
