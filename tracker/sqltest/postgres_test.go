package sqltest

import (
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver

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
	return database{connect(t, "pgx", pgtest.Start(t).DSN()), tracker.PostgreSQL}
}
