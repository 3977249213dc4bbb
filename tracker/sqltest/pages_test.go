package sqltest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/tracker"
)

// testPages: a page ends after limit rows, whether they have work or not, and at the most
// identifiers that it may have. Its last identifier may come twice.
func testPages(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE paged (item bigint, status text)`)
	db.exec(t, `WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 3000)
		INSERT INTO paged SELECT n, CASE WHEN n = 15 OR n > 1000 THEN 'queued' ELSE 'done' END FROM many`)
	db.exec(t, `INSERT INTO paged VALUES (NULL, 'queued')`)
	db.exec(t, `CREATE INDEX paged_item ON paged (item)`)
	source := db.source(t, tracker.SQLConfig{Table: "paged", ID: "item", Where: "status = 'queued'", IntegerID: true})
	for _, c := range []struct {
		after  string
		limit  int
		ids    int
		next   string
		looked int
	}{
		{"", 10, 0, "10", 10},
		{"10", 10, 1, "20", 10},
		{"10", 5, 2, "15", 5},
		{"20", 500, 0, "520", 500},
		{"900", 10_000, tracker.MaxIDs, "1999", 1099},
		{"2000", 500, 501, "2500", 500},
		{"2500", 500, 501, "3000", 500}, // whether there is more is not known
		{"2500", 501, 500, "", 500},
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

// testWhole: a page ends within the rows of an identifier, and still knows whether any of them has
// work. The next page begins behind them.
func testWhole(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE whole (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, `CREATE INDEX whole_item ON whole (item)`)
	for n, item := range []string{"a", "b", "b", "b", "b", "c", "c", "c", "d"} {
		db.exec(t, `INSERT INTO whole VALUES (?, ?, 'done')`, n, item)
	}
	source := db.source(t, tracker.SQLConfig{Table: "whole", ID: "item", Where: "status = 'queued'"})
	for n := 1; n < 5; n++ {
		db.exec(t, `UPDATE whole SET status = CASE WHEN n = ? THEN 'queued' ELSE 'done' END`, n)
		for limit := 1; limit < 10; limit++ {
			if diff := cmp.Diff([]string{"b"}, walk(t, source, limit)); diff != "" {
				t.Errorf("with work in row %d, and %d rows at a time (-want +got):\n%s", n, limit, diff)
			}
		}
	}
	page, err := source.Rows(t.Context(), "=a", 2)
	if err != nil || page.Next != "=b" || page.Looked != 2 {
		t.Errorf("Rows = %+v, %v, want two rows of b", page, err)
	}
	if page, err = source.Rows(t.Context(), page.Next, 1); err != nil || page.Next != "=c" {
		t.Errorf("Rows = %+v, %v, want a row of c", page, err)
	}
}

// testMoves moves the work of an identifier to another row between two slices of a pass, between
// any two and in both directions. The identifier always has work.
func testMoves(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE moves (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, `CREATE INDEX moves_item ON moves (item)`)
	const rows = 30
	for n := range rows {
		item := fmt.Sprint("item ", n)
		if n == 0 || n == rows/2 || n == rows-1 {
			item = "item 2x" // in the middle of the others
		}
		db.exec(t, `INSERT INTO moves VALUES (?, ?, 'done')`, n, item)
	}
	source := db.source(t, tracker.SQLConfig{Table: "moves", ID: "item", Where: "status = 'queued'"})
	to := func(n int) {
		db.exec(t, `UPDATE moves SET status = CASE WHEN n = ? THEN 'queued' ELSE 'done' END`, n)
	}
	for _, way := range [][2]int{{rows - 1, 0}, {0, rows - 1}, {rows / 2, 0}, {rows - 1, rows / 2}} {
		for before := range 6 {
			to(way[0])
			tr := open(t, source, time.Millisecond)
			for range before {
				slice(t, tr.Jobs()[0])
			}
			s, err := tr.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			to(way[1])
			for passes := s.Passes; s.Passes == passes; {
				slice(t, tr.Jobs()[0])
				if s, err = tr.Stats(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if s.Passes != 1 {
				continue // the move came after the pass
			}
			wantState(t, tr, "item 2x", tracker.Queued)
		}
	}
}

// testSpellings: a column may take several texts for equal. Producers and rows keep their
// spellings.
func testSpellings(t *testing.T, db database) {
	column, row, same, other := "text COLLATE NOCASE", "Alice", "alice", "bob"
	if db.dialect == tracker.PostgreSQL {
		column, row, same, other = "char(8)", "alice", "alice   ", "ali"
	}
	db.exec(t, `CREATE TABLE spellings (n bigint PRIMARY KEY, item `+column+`, status text)`)
	db.exec(t, `CREATE INDEX spellings_item ON spellings (item)`)
	source := db.source(t, tracker.SQLConfig{Table: "spellings", ID: "item", Where: "status = 'queued'"})
	for n := range 5 {
		db.exec(t, `INSERT INTO spellings VALUES (?, ?, 'done')`, n, same)
	}
	db.exec(t, `INSERT INTO spellings VALUES (10, ?, 'queued')`, row)
	wantPending(t, source, []string{same, other, row}, row, same)
	wantPending(t, source, []string{same}, same)

	tr := open(t, source, time.Millisecond)
	if err := tr.Add(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	for page := range 3 {
		if ids := walk(t, source, page+1); !slices.Contains(ids, row) {
			t.Errorf("rows, %d at a time = %q, want %q among them", page+1, ids, row)
		}
	}
	if err := tr.Fill(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "both are verified", func() bool {
		slice(t, tr.Jobs()[1])
		s, err := tr.Stats(t.Context())
		return err == nil && s.Counters.Confirmed >= 2
	})
	wantState(t, tr, same, tracker.Queued)
	wantState(t, tr, row, tracker.Queued)
	db.exec(t, `UPDATE spellings SET status = 'done'`)
	redistest.Eventually(t, "both are gone", func() bool {
		slice(t, tr.Jobs()[1])
		s, err := tr.Stats(t.Context())
		return err == nil && s.Tracked == 0
	})
}

// testIndexed: a page has as many rows with work as it may look at.
func testIndexed(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE indexed (n bigint PRIMARY KEY, item bigint, status text)`)
	db.exec(t, `CREATE INDEX indexed_work ON indexed (item) WHERE status = 'queued'`)
	for n := range 40 {
		db.exec(t, `INSERT INTO indexed VALUES (?, ?, ?)`, 100-n, n, []string{"queued", "done", "done", "done"}[n%4])
	}
	source := db.source(t, tracker.SQLConfig{Table: "indexed", ID: "item", Where: "status = 'queued'", Indexed: true, IntegerID: true})
	page, err := source.Rows(t.Context(), "8", 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tracker.Page{IDs: []string{"12", "16", "20", "20"}, Next: "20", Looked: 3}, page); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if got := len(walk(t, source, 4)); got != 10 {
		t.Errorf("%d rows, want 10", got)
	}
}
