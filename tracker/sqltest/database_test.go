package sqltest

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"github.com/millrace/millrace/tracker"
)

// database is a real one, empty but for what the tests make.
type database struct {
	*sql.DB

	dialect tracker.Dialect
}

// databases are what the contract is tested on.
var databases = []struct {
	name string
	open func(t *testing.T) database
}{
	{"SQLite", openSQLite},
	{"PostgreSQL", openPostgreSQL},
}

// openSQLite makes a database in a file of its own.
func openSQLite(t *testing.T) database {
	t.Helper()
	const settings = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
	return database{connect(t, "sqlite", filepath.Join(t.TempDir(), "work.db")+settings), tracker.SQLite}
}

func connect(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// exec runs a statement with the placeholder ? in either dialect.
func (d database) exec(t *testing.T, text string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(context.Background(), d.spelled(text), args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// spelled numbers the placeholders if the dialect wants that.
func (d database) spelled(text string) string {
	if d.dialect == tracker.SQLite {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// source returns the tracker's view of a table.
func (d database) source(t *testing.T, cfg tracker.SQLConfig) tracker.Source {
	t.Helper()
	cfg.Dialect = d.dialect
	source, err := tracker.SQL(d.DB, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return source
}
