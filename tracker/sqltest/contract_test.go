package sqltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/tracker"
)

// contract is the rules for a source in a database. Each test makes tables of its
// own.
var contract = []struct {
	name string
	test func(t *testing.T, db database)
}{
	{"walks in the order of whole numbers", testNumbers},
	{"walks in the order of texts", testTexts},
	{"sees what the condition says", testCondition},
	{"ends a page after so many rows", testPages},
	{"looks at an identifier as a whole", testWhole},
	{"does not miss work that moves", testMoves},
	{"takes texts for equal as the column does", testSpellings},
	{"reads what an index has", testIndexed},
	{"knows who has work", testPending},
	{"knows whole numbers as identifiers", testIntegerIDs},
	{"answers about identifiers that no column holds", testOddIdentifiers},
	{"gets past identifiers that no cursor holds", testLongIdentifiers},
	{"quotes names", testNames},
	{"refuses columns that are not there", testMisspelt},
	{"refuses a cursor of another table", testForeignCursor},
	{"ends with its context", testContext},
	{"does not see what is not committed", testUncommitted},
	{"keeps a tracker in step", testInStep},
}

func testContract(t *testing.T, db database) {
	t.Helper()
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, db) })
	}
}

// walk reads all rows, limit at a time.
func walk(t *testing.T, source tracker.Source, limit int) []string {
	t.Helper()
	ids := []string{}
	for after := ""; ; {
		page, err := source.Rows(t.Context(), after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if page.Looked > limit || len(page.IDs) > min(page.Looked+1, tracker.MaxIDs) {
			t.Fatalf("page of at most %d rows = %+v", limit, page)
		}
		for _, id := range page.IDs {
			if len(ids) == 0 || ids[len(ids)-1] != id { // they may repeat
				ids = append(ids, id)
			}
		}
		if page.Next == "" {
			return ids
		}
		after = page.Next
	}
}

func wantWalk(t *testing.T, source tracker.Source, want ...string) {
	t.Helper()
	for _, limit := range []int{1, 2, len(want), 1000} {
		if diff := cmp.Diff(want, walk(t, source, max(1, limit))); diff != "" {
			t.Errorf("rows, %d at a time (-want +got):\n%s", limit, diff)
		}
	}
}

func wantPending(t *testing.T, source tracker.Source, ids []string, want ...string) {
	t.Helper()
	got, err := source.Pending(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Pending(%q) = %q, want %q", ids, got, want)
	}
}

func testNumbers(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE by_number (n bigint PRIMARY KEY, item bigint)`)
	source := db.source(t, tracker.SQLConfig{Table: "by_number", ID: "item", IntegerID: true})
	if page, err := source.Rows(t.Context(), "", 10); err != nil || len(page.IDs) != 0 || page.Next != "" {
		t.Errorf("Rows of an empty table = %v, %v, want none", page, err)
	}
	for n, item := range []int64{10, 9, 0, -1, math.MinInt64, math.MaxInt64, 100} {
		db.exec(t, `INSERT INTO by_number VALUES (?, ?)`, n, item)
	}
	db.exec(t, `INSERT INTO by_number VALUES (50, NULL)`)
	wantWalk(t, source, fmt.Sprint(math.MinInt64), "-1", "0", "9", "10", "100", fmt.Sprint(math.MaxInt64))
}

func testTexts(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE by_text (n bigint PRIMARY KEY, item text)`)
	source := db.source(t, tracker.SQLConfig{Table: "by_text", ID: "item"})
	for n, item := range []string{"b", "", "10", "9", "=", "a", "it's", "ü"} {
		db.exec(t, `INSERT INTO by_text VALUES (?, ?)`, n, item)
	}
	db.exec(t, `INSERT INTO by_text VALUES (50, NULL)`)
	var want []string
	rows, err := db.QueryContext(t.Context(), `SELECT item FROM by_text WHERE item IS NOT NULL ORDER BY item`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var item string
		if err := rows.Scan(&item); err != nil {
			t.Fatal(err)
		}
		want = append(want, item)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	wantWalk(t, source, want...)
}

func testCondition(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE tasks (n bigint PRIMARY KEY, item text, status text)`)
	for i, status := range []string{"queued", "done", "running", "queued", "failed"} {
		db.exec(t, `INSERT INTO tasks VALUES (?, ?, ?)`, i, fmt.Sprint("item ", i%3), status)
	}
	source := db.source(t, tracker.SQLConfig{
		Table: "tasks", ID: "item", Where: "status = 'queued' OR status = 'running'",
	})
	wantWalk(t, source, "item 0", "item 2")
	wantPending(t, source, []string{"item 0", "item 1", "item 2", "item 3"}, "item 0", "item 2")
}

func testPending(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE pending (n bigint PRIMARY KEY, item text)`)
	source := db.source(t, tracker.SQLConfig{Table: "pending", ID: "item"})
	wantPending(t, source, nil)
	var asked, want []string
	for i := range tracker.MaxIDs { // as many as are ever asked about
		id := fmt.Sprintf("%04d", i)
		asked = append(asked, id)
		if i%400 == 0 {
			want = append(want, id)
			db.exec(t, `INSERT INTO pending VALUES (?, ?)`, 2*i, id)
			db.exec(t, `INSERT INTO pending VALUES (?, ?)`, 2*i+1, id)
		}
	}
	wantPending(t, source, asked, want...)
	wantPending(t, source, []string{"0001"})
}

func testIntegerIDs(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE numbered (n bigint PRIMARY KEY, item integer)`)
	for i, item := range []int{7, -7, 0} {
		db.exec(t, `INSERT INTO numbered VALUES (?, ?)`, i, item)
	}
	source := db.source(t, tracker.SQLConfig{Table: "numbered", ID: "item", IntegerID: true})
	wantWalk(t, source, "-7", "0", "7")
	odd := []string{"07", "+7", " 7", "7.0", "seven", "", strconv.FormatInt(math.MaxInt64, 10), "99999999999999999999"}
	wantPending(t, source, odd)
	wantPending(t, source, append(odd, "7", "-7", "8"), "-7", "7")
}

func testOddIdentifiers(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE odd (n bigint PRIMARY KEY, item varchar(40))`)
	fine := []string{"'; DROP TABLE odd; --", `"`, `\`, "%", "$1", "?", "a\nb", "ü"}
	slices.Sort(fine)
	for i, id := range fine {
		db.exec(t, `INSERT INTO odd VALUES (?, ?)`, i, id)
	}
	source := db.source(t, tracker.SQLConfig{Table: "odd", ID: "item"})
	got := walk(t, source, 2)
	slices.Sort(got)
	if diff := cmp.Diff(fine, got); diff != "" {
		t.Errorf("identifiers (-want +got):\n%s", diff)
	}
	odd := []string{"\x00", "a\x00b", "\xff", "caf\xe9", strings.Repeat("x", 512)}
	wantPending(t, source, odd)
	wantPending(t, source, append(odd, fine...), fine...)
}

func testLongIdentifiers(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE long (item text)`)
	longest := strings.Repeat("x", 4095)
	for _, id := range []string{"a", longest, longest + "x", strings.Repeat("y", 100_000), "z"} {
		db.exec(t, `INSERT INTO long VALUES (?)`, id)
	}
	source := db.source(t, tracker.SQLConfig{Table: "long", ID: "item"})
	wantWalk(t, source, "a", longest, "z")
	tr, err := tracker.New(redistest.Shared(t).Client(t), redistest.Name(t), tracker.Config{
		Source: source, AddRows: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		slice(t, tr.Jobs()[0])
	}
	wantState(t, tr, "a", tracker.Queued)
	wantState(t, tr, "b", tracker.NotQueued)
	wantState(t, tr, "z", tracker.Queued)
}

func testNames(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE "Order ""1""" ("group" bigint PRIMARY KEY, "select" text)`)
	db.exec(t, `INSERT INTO "Order ""1""" VALUES (1, 'x')`)
	wantWalk(t, db.source(t, tracker.SQLConfig{Table: `Order "1"`, ID: "select"}), "x")
	schema := map[string]string{tracker.SQLite: "main", tracker.PostgreSQL: "public"}[db.dialect]
	wantWalk(t, db.source(t, tracker.SQLConfig{Table: schema + `.Order "1"`, ID: "select"}), "x")
}

// testMisspelt: SQLite takes a name in double quotes that it does not know for a
// text, and would find one in every row.
func testMisspelt(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE spelled (n bigint PRIMARY KEY, item text)`)
	db.exec(t, `INSERT INTO spelled VALUES (1, 'x')`)
	for _, cfg := range []tracker.SQLConfig{
		{Table: "spelled", ID: "itme"}, {Table: "speled", ID: "item"},
	} {
		if rows, err := db.source(t, cfg).Rows(t.Context(), "", 10); err == nil {
			t.Errorf("Rows of %+v = %v, want an error", cfg, rows)
		}
	}
	if ids, err := db.source(t, tracker.SQLConfig{Table: "spelled", ID: "itme"}).Pending(t.Context(), []string{"itme"}); err == nil {
		t.Errorf("Pending = %q, want an error", ids)
	}
}

func testForeignCursor(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE one (n bigint PRIMARY KEY, item text)`)
	db.exec(t, `CREATE TABLE two (n bigint PRIMARY KEY, item bigint)`)
	for cursor, cfg := range map[string]tracker.SQLConfig{
		"=text": {Table: "two", ID: "item", IntegerID: true},
		"1.5":   {Table: "two", ID: "item", IntegerID: true},
		"7":     {Table: "one", ID: "item"},
	} {
		if _, err := db.source(t, cfg).Rows(t.Context(), cursor, 10); !errors.Is(err, tracker.ErrSource) {
			t.Errorf("Rows behind %q = %v, want %v", cursor, err, tracker.ErrSource)
		}
	}
}

func testContext(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE brief (n bigint PRIMARY KEY, item text)`)
	source := db.source(t, tracker.SQLConfig{Table: "brief", ID: "item"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Rows(ctx, "", 10); !errors.Is(err, context.Canceled) {
		t.Errorf("Rows = %v, want context.Canceled", err)
	}
	if _, err := source.Pending(ctx, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Pending = %v, want context.Canceled", err)
	}
}

// open returns a tracker of a source.
func open(t *testing.T, source tracker.Source, grace time.Duration) *tracker.Tracker {
	t.Helper()
	tr, err := tracker.New(redistest.Shared(t).Client(t), redistest.Name(t),
		tracker.Config{Source: source, AddRows: 7, VerifyIDs: 7, Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func wantState(t *testing.T, tr *tracker.Tracker, id string, want tracker.State) {
	t.Helper()
	if got, err := tr.Queued(t.Context(), id); err != nil || got[0].State != want {
		t.Errorf("Queued(%q) = %v, %v, want %v", id, got, err, want)
	}
}

// slice runs one slice of a job.
func slice(t *testing.T, job millrace.Job) {
	t.Helper()
	if _, err := job.Slice(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testUncommitted adds an identifier before the transaction that queues its work
// commits: the wrong order. The grace holds the identifier, and without it a
// verification removes it until a pass finds the row.
func testUncommitted(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE late (n bigint PRIMARY KEY, item text)`)
	db.exec(t, `INSERT INTO late VALUES (1, 'other')`)
	source := db.source(t, tracker.SQLConfig{Table: "late", ID: "item"})
	patient, hasty := open(t, source, 10*time.Second), open(t, source, time.Millisecond)
	trackers := []*tracker.Tracker{patient, hasty}
	for _, tr := range trackers {
		if err := tr.Fill(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO late VALUES (0, 'x')`); err != nil {
		t.Fatal(err)
	}
	for _, tr := range trackers {
		if err := tr.Add(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "the hasty one has removed it", func() bool {
		slice(t, patient.Jobs()[1])
		slice(t, hasty.Jobs()[1])
		a, err := hasty.Queued(t.Context(), "x")
		return err == nil && a[0].State == tracker.NotQueued
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantState(t, patient, "x", tracker.Queued)
	slice(t, hasty.Jobs()[0]) // a whole pass
	wantState(t, hasty, "x", tracker.Queued)
	wantState(t, hasty, "other", tracker.Queued)
}

// testInStep runs slices from two sides while work begins and ends.
func testInStep(t *testing.T, db database) {
	db.exec(t, `CREATE TABLE work (n bigint PRIMARY KEY, item text, status text)`)
	db.exec(t, `CREATE INDEX work_item ON work (item)`)
	source := db.source(t, tracker.SQLConfig{Table: "work", ID: "item", Where: "status <> 'done'"})
	tr := open(t, source, time.Millisecond)
	wantState(t, tr, "item 1", tracker.Unknown)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() {
			var err error
			for err == nil {
				if _, err = tr.Jobs()[0].Slice(ctx); err == nil {
					_, err = tr.Jobs()[1].Slice(ctx)
				}
			}
			ended <- err
		}()
	}
	random := rand.New(rand.NewPCG(1, 2))
	live := map[string]bool{} // has work, and was added
	for n := range 400 {
		id := fmt.Sprint("item ", random.IntN(30))
		if n%2 == 0 {
			db.exec(t, `UPDATE work SET status = 'done' WHERE item = ?`, id)
			delete(live, id)
		} else {
			db.exec(t, `INSERT INTO work VALUES (?, ?, 'queued')`, n, id)
			if n%3 == 0 {
				continue // its producer dies before it adds
			}
			if err := tr.Add(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			live[id] = true
		}
		ids := slices.Collect(maps.Keys(live))
		answers, err := tr.Queued(t.Context(), ids...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.State != tracker.Queued {
				t.Fatalf("%q was added and has work, and is %v", ids[i], a.State)
			}
		}
	}
	rows := walk(t, source, 1000)
	redistest.Eventually(t, "the tracker knows exactly what has work", func() bool {
		for i := range 30 {
			id := fmt.Sprint("item ", i)
			want := tracker.NotQueued
			if slices.Contains(rows, id) {
				want = tracker.Queued
			}
			if a, err := tr.Queued(t.Context(), id); err != nil || a[0].State != want {
				return false
			}
		}
		return true
	})
	stop()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a slice failed: %v", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	good := tracker.SQLConfig{Table: "t", ID: "i"}
	for what, change := range map[string]func(*tracker.SQLConfig){
		"no table":        func(c *tracker.SQLConfig) { c.Table = "" },
		"half a schema":   func(c *tracker.SQLConfig) { c.Table = "s." },
		"no id":           func(c *tracker.SQLConfig) { c.ID = "" },
		"a zero byte":     func(c *tracker.SQLConfig) { c.ID = "a\x00" },
		"no text":         func(c *tracker.SQLConfig) { c.Table = "\xff" },
		"unknown dialect": func(c *tracker.SQLConfig) { c.Dialect = "mysql" },
	} {
		cfg := good
		change(&cfg)
		if _, err := tracker.SQL(nil, cfg); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("SQL with %s = %v, want %v", what, err, millrace.ErrBadArgument)
		}
	}
	if _, err := tracker.SQL(nil, good); err != nil {
		t.Errorf("SQL = %v", err)
	}
}
