package sqltest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/tracker"
)

// testPages: a page ends after limit rows, whether they have work or not, and at the most
// identifiers that it may have.
func testPages(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE paged (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, `WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 3000)
		INSERT INTO paged SELECT n, CASE WHEN n <> 25 THEN 'item' END, CASE WHEN n IN (15, 25) OR n > 1000 THEN 'queued' ELSE 'done' END FROM many`)
	source := db.source(t, tracker.SQLConfig{Table: "paged", Key: "n", ID: "item", Where: "status = 'queued'"})
	for _, c := range []struct {
		after  string
		limit  int
		ids    int
		next   string
		looked int
	}{
		{"", 10, 0, "10", 10},
		{"10", 10, 1, "20", 10},
		{"20", 5, 0, "25", 5}, // the last row has work, and nobody's
		{"20", 500, 0, "520", 500},
		{"900", 10_000, tracker.MaxIDs, "2000", 1100},
		{"2000", 1000, 1000, "3000", 1000}, // whether there is more is not known
		{"2000", 1001, 1000, "", 1000},
		{"2990", 100, 10, "", 10},
		{"3000", 100, 0, "", 0},
	} {
		page, err := source.Rows(t.Context(), c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.IDs) != c.ids || page.Next != c.next || page.Looked != c.looked {
			t.Errorf("Rows(%q, %d) = %d identifiers, Next %q, Looked %d, want %d, %q, %d",
				c.after, c.limit, len(page.IDs), page.Next, page.Looked, c.ids, c.next, c.looked)
		}
	}
}

// testIndexed: a page has as many rows with work as it may look at.
func testIndexed(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE indexed (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, `CREATE INDEX indexed_work ON indexed (n) WHERE status = 'queued'`)
	for n := range 40 {
		db.exec(t, `INSERT INTO indexed VALUES (?, ?, ?)`, n, fmt.Sprint("item ", n), []string{"queued", "done", "done", "done"}[n%4])
	}
	source := db.source(t, tracker.SQLConfig{Table: "indexed", Key: "n", ID: "item", Where: "status = 'queued'", Indexed: true})
	page, err := source.Rows(t.Context(), "8", 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tracker.Page{IDs: []string{"item 12", "item 16", "item 20"}, Next: "20", Looked: 3}, page); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if got := len(walk(t, source, 4)); got != 10 {
		t.Errorf("%d rows, want 10", got)
	}
}
