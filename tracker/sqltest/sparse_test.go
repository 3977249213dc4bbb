package sqltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/tracker"
)

// TestReproduceT1 is a first version.
func TestReproduceT1(t *testing.T) {
	t.Parallel()
	db := openPostgreSQL(t)
	const rows = 30_000
	db.exec(t, `CREATE TABLE sparse (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, fmt.Sprintf(`INSERT INTO sparse SELECT g, 'item ' || g, CASE WHEN g %% 10000 = 0 THEN 'queued' ELSE 'done' END FROM generate_series(1, %d) g`, rows))
	db.exec(t, `CREATE INDEX sparse_item ON sparse (item)`)
	db.exec(t, `ANALYZE sparse`)
	source := db.source(t, tracker.SQLConfig{Table: "sparse", Key: "n", ID: "item",
		Where: "CASE WHEN length(repeat(md5(item), 1000)) > 0 THEN status = 'queued' END"})
	tr := open(t, source, time.Millisecond)
	began := time.Now()
	slices, failed := 0, 0
	for ; slices < 2*rows/7; slices++ {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		_, err := tr.AddJob().Slice(ctx)
		cancel()
		if err != nil {
			failed++
		}
		if failed > 200 {
			t.Fatalf("%d slices failed of %d: %v", failed, slices, err)
		}
		if s, _ := tr.Stats(t.Context()); s.Passes > 0 {
			break
		}
	}
	t.Logf("%d slices, %d failed, %v", slices, failed, time.Since(began))
	wantState(t, tr, "item 10000", tracker.Queued)
	wantState(t, tr, "item 1", tracker.NotQueued)
}
