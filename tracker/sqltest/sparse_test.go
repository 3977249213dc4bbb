package sqltest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/tracker"
)

// counted counts the rows that a source looked at, by calls that answered.
type counted struct {
	tracker.Source
	looked atomic.Int64
}

func (c *counted) Rows(ctx context.Context, after string, limit int) (tracker.Page, error) {
	page, err := c.Source.Rows(ctx, after, limit)
	c.looked.Add(int64(page.Looked))
	return page, err
}

// TestSparseMillion walks a table in which one row in ten thousand has work. To look for
// the next one takes much longer than a slice has, and still slices get on. Work that
// no producer added is known after two passes at most, however large the table is. The table
// has a million rows with MILLRACE_SOAK=1.
func TestSparseMillion(t *testing.T) {
	t.Parallel()
	rows := 30_000
	if os.Getenv("MILLRACE_SOAK") != "" {
		rows = 1_000_000
	}
	db := openPostgreSQL(t)
	db.exec(t, `CREATE TABLE sparse (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, fmt.Sprintf(`INSERT INTO sparse SELECT 2 * g, 'item ' || g, CASE WHEN g %% 10000 = 0 THEN 'queued' ELSE 'done' END
		FROM generate_series(1, %d) g`, rows))
	db.exec(t, `CREATE INDEX sparse_item ON sparse (item)`)
	db.exec(t, `ANALYZE sparse`)
	// A condition that takes a while: a statement that looks for the next row with work
	// reads ten thousand.
	source := &counted{Source: db.source(t, tracker.SQLConfig{
		Table: "sparse", ID: "item", Where: "length(repeat(md5(item), 150)) > CASE WHEN status = 'queued' THEN 0 ELSE 100000 END",
	})}
	tr, err := tracker.New(redistest.Shared(t).Client(t), redistest.Name(t), tracker.Config{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	failed, inARow := 0, 0
	until := func(what string, done func(tracker.Stats) bool) {
		t.Helper()
		source.looked.Store(0)
		for began := time.Now(); ; {
			s, err := tr.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if done(s) {
				t.Logf("%s: %d rows looked at in %v", what, source.looked.Load(), time.Since(began))
				return
			}
			if source.looked.Load() > int64(3*rows) || inARow > 400 {
				t.Fatalf("%s: not after %d rows, with %d slices that failed, %d in a row", what, source.looked.Load(), failed, inARow)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
			start, before := time.Now(), source.looked.Load()
			if _, err := tr.Jobs()[0].Slice(ctx); err != nil { // its budget was over
				failed, inARow = failed+1, inARow+1
				source.looked.Store(before) // the next one looks at the same rows, or fewer
			} else {
				inARow = 0
			}
			took = append(took, time.Since(start))
			cancel()
		}
	}
	queued := func(id string) bool {
		a, err := tr.Queued(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return a[0].State == tracker.Queued
	}

	until("the first pass", func(s tracker.Stats) bool { return s.Passes == 1 })
	if looked := source.looked.Load(); looked > int64(rows) { // less where a slice ended after the server did its work
		t.Errorf("the first pass looked at %d rows, want each of %d once", looked, rows)
	}
	wantState(t, tr, "item 10000", tracker.Queued)
	wantState(t, tr, fmt.Sprintf("item %d", rows), tracker.Queued)
	wantState(t, tr, "item 10001", tracker.NotQueued)

	// A producer dies between its commit and its Add, when the pass has just gone by.
	until("the middle of a pass", func(tracker.Stats) bool { return source.looked.Load() > int64(rows/2) })
	db.exec(t, `INSERT INTO sparse VALUES (1, 'late', 'queued')`)
	until("what nobody added", func(tracker.Stats) bool { return queued("late") })
	if looked := source.looked.Load(); looked > int64(2*rows+2*1000) {
		t.Errorf("it took %d rows to find it, want two passes of %d at most", looked, rows)
	}
	slices.Sort(took)
	t.Logf("%d slices, %d over their budget; median %v, p99 %v", len(took), failed, took[len(took)/2], took[len(took)*99/100])
}
