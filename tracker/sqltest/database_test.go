package sqltest

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/tracker"
)

// database is a real one, empty but for the tests' tables.
type database struct {
	*sql.DB

	dialect string
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
