package sqltest

import (
	"testing"

	_ "github.com/lib/pq" // the "postgres" driver

	"github.com/millrace/millrace/internal/test/pgtest"
	"github.com/millrace/millrace/tracker"
)

// TestPostgreSQL holds PostgreSQL to the contract of sources.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	testContract(t, openPostgreSQL(t))
}

// openPostgreSQL runs a cluster of the test's own, which ends with it.
func openPostgreSQL(t *testing.T) database {
	t.Helper()
	return database{connect(t, "postgres", pgtest.Start(t).DSN()), tracker.PostgreSQL}
}
