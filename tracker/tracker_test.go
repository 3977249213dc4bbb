package tracker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work, AddRows: 2})
	wantState(t, tr, "old", Unknown)
	work.start("old", "twice", "twice", "other")
	walkOne(t, tr)
	wantState(t, tr, "old", Queued)
	wantState(t, tr, "twice", Unknown)
	add(t, tr, "fresh")
	wantState(t, tr, "fresh", Queued)
	walkOne(t, tr)
	wantState(t, tr, "none", Unknown) // another row may follow
	walkOne(t, tr)
	answers, err := tr.Queued(t.Context(), "none", "other", "twice", "other")
	if err != nil {
		t.Fatal(err)
	}
	var got []State
	for _, a := range answers {
		got = append(got, a.State)
		if a.Age < 0 || a.Age > time.Minute {
			t.Errorf("Age = %v, want the time since a moment ago", a.Age)
		}
	}
	if diff := cmp.Diff([]State{NotQueued, Queued, Queued, Queued}, got); diff != "" {
		t.Errorf("Queued (-want +got):\n%s", diff)
	}
	if s, err := tr.Stats(t.Context()); s.Tracked != 4 || err != nil {
		t.Errorf("Tracked = %d, %v, want 4", s.Tracked, err)
	}
}

func TestAges(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work})
	pass(t, tr)
	add(t, tr, "x")
	now := clock(t, tr)
	setStamp(t, tr, "x", now-60_000)
	must(t, tr.run.Client, "HSET", baseKey(tr.name), "full_started_ms", fmt.Sprint(now-90_000), "full_ended_ms", fmt.Sprint(now-70_000),
		"moved_ms", fmt.Sprint(now-70_000))
	about := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want || got > want+20*time.Second {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	for id, want := range map[string]time.Duration{"x": time.Minute, "y": 90 * time.Second} {
		a, err := tr.Queued(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		about("Age of "+id, a[0].Age, want)
	}
	s := stats(t, tr)
	about("OldestCheck", s.OldestCheck, time.Minute)
	about("PassAge", s.PassAge, 90*time.Second)
	about("PassTime", s.PassTime, 20*time.Second)
	about("CursorAge", s.CursorAge, 70*time.Second)
	setStamp(t, tr, "x", now+60_000) // the clock was set back
	if a, err := tr.Queued(t.Context(), "x"); err != nil || a[0].Age != 0 {
		t.Errorf("Queued of a stamp ahead of the clock = %v, %v, want the age 0", a, err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work})
	if diff := cmp.Diff(Stats{Name: tr.Name()}, stats(t, tr), cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "At" }, cmp.Ignore())); diff != "" {
		t.Errorf("Stats of what is not there (-want +got):\n%s", diff)
	}
	work.start("a", "b", "c")
	pass(t, tr)
	pass(t, tr)
	add(t, tr, "c", "d")
	work.finish("a")
	verifyOne(t, tr)
	s := stats(t, tr)
	if got, want := s.Counters, (Counters{Added: 4, Confirmed: 2, Removed: 2}); got != want {
		t.Errorf("Counters = %+v, want %+v", got, want)
	}
	if s.Tracked != 2 || s.Passes != 2 {
		t.Errorf("Stats = %+v, want 2 tracked and 2 passes", s)
	}
}

// TestProgress: the progress that slices report to the recruiter.
func TestProgress(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work, AddRows: 2, VerifyIDs: 2})
	want := func(job millrace.Job, want millrace.Progress) {
		t.Helper()
		tick(t, tr)
		if got, err := job.Slice(t.Context()); got != want || err != nil {
			t.Errorf("slice of %s = %v, %v, want %v", job.Name, got, err, want)
		}
	}
	work.start("a", "b", "c")
	want(tr.Jobs()[1], millrace.Idle)
	want(tr.Jobs()[0], millrace.More)
	want(tr.Jobs()[0], millrace.Worked) // the first pass is over
	want(tr.Jobs()[0], millrace.Worked)
	want(tr.Jobs()[0], millrace.Worked)
	want(tr.Jobs()[1], millrace.Worked)
	work.finish("a", "b", "c")
	want(tr.Jobs()[0], millrace.Idle)
	want(tr.Jobs()[1], millrace.More)
	want(tr.Jobs()[1], millrace.Worked)
	want(tr.Jobs()[1], millrace.Idle)

	work.start("a")
	walkOne(t, tr)
	work.during = func() { walkOne(t, tr) }
	want(tr.Jobs()[0], millrace.Idle) // the other one was faster
	if got, want := stats(t, tr).Passes, int64(5); got != want {
		t.Errorf("Passes = %d, want %d", got, want)
	}
}

// TestSlicesAreBounded: whatever there is, a slice asks for no more than it may.
func TestSlicesAreBounded(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work, AddRows: 70})
	for i := range 3 * defaultIDs {
		work.start(fmt.Sprint(i))
	}
	walkOne(t, tr)
	if got, want := len(tracked(t, tr)), 70; got != want {
		t.Errorf("a slice added %d, want %d", got, want)
	}
	pass(t, tr)
	work.finish(tracked(t, tr)...)
	verifyOne(t, tr)
	if got, want := len(tracked(t, tr)), 2*defaultIDs; got != want {
		t.Errorf("%d are left after a slice, want %d", got, want)
	}
}

// TestManyIdentifiers: calls with more than a script may handle are split.
func TestManyIdentifiers(t *testing.T) {
	t.Parallel()
	tr := open(t, Config{})
	ids := make([]string, 2*MaxIDs+1)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	add(t, tr, ids...)
	answers, err := tr.Queued(t.Context(), ids...)
	if err != nil || len(answers) != len(ids) {
		t.Fatalf("Queued = %d answers, %v, want %d", len(answers), err, len(ids))
	}
	for i, a := range answers {
		if a.State != Queued {
			t.Fatalf("Queued(%q) = %v, want %v", ids[i], a.State, Queued)
		}
	}
	add(t, tr)
	if answers, err := tr.Queued(t.Context()); len(answers) != 0 || err != nil {
		t.Errorf("Queued of none = %v, %v, want no answers", answers, err)
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work, AddRows: 10})
	const rows = 2*MaxIDs + 7
	for i := range rows {
		work.start(fmt.Sprint(i))
	}
	walkOne(t, tr) // Fill goes on behind it
	var seen []int
	if err := tr.Fill(t.Context(), func(n int) { seen = append(seen, n) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{MaxIDs, rows - 10}, seen); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if s := stats(t, tr); s.Tracked != rows || s.Passes != 1 {
		t.Errorf("Stats = %+v, want all tracked in one pass", s)
	}

	// A flush in the middle: the pass begins anew, and Fill goes on to its end.
	work.during = func() { must(t, tr.run.Client, "DEL", baseKey(tr.name), idsKey(baseKey(tr.name))) }
	if err := tr.Fill(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s := stats(t, tr); s.Tracked != rows || s.Passes != 1 {
		t.Errorf("Stats after a flush = %+v, want all tracked in one pass", s)
	}

	broken := errors.New("no connection")
	tr.cfg.Source = failing{broken}
	wantError(t, tr.Fill(t.Context(), nil), broken)
}

// failing is a source whose calls return err.
type failing struct{ err error }

func (f failing) Rows(context.Context, string, int) (Page, error)              { return Page{}, f.err }
func (f failing) Pending(context.Context, []string) (answer []string, _ error) { return nil, f.err }

// TestSourceFails: nothing is changed by a slice whose source fails.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work, AddRows: 1})
	work.start("a", "b")
	walkOne(t, tr)
	before := stats(t, tr)
	broken := errors.New("no connection")
	tr.cfg.Source = failing{broken}
	tick(t, tr)
	for _, job := range tr.Jobs() {
		progress, err := job.Slice(t.Context())
		wantError(t, err, broken)
		if progress != millrace.Idle {
			t.Errorf("progress = %v, want idle", progress)
		}
	}
	tr.cfg.Source = nil
	for _, job := range tr.Jobs() {
		_, err := job.Slice(t.Context())
		wantError(t, err, millrace.ErrBadArgument)
	}
	wantError(t, tr.Fill(t.Context(), nil), millrace.ErrBadArgument)
	if after := stats(t, tr); after.Counters != before.Counters || after.Tracked != 1 {
		t.Errorf("Stats = %+v, want them unchanged", after)
	}
}

// fixed is a source with the same answer for all questions.
type fixed struct {
	failing
	page Page
}

func (f fixed) Rows(context.Context, string, int) (Page, error) { return f.page, nil }

func TestSourceIsWrong(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]Page{
		"too many":            {IDs: make([]string, MaxIDs+1), Next: "1"},
		"a cursor too long":   {IDs: []string{"a"}, Next: strings.Repeat("x", maxCursor+1)},
		"the same row always": {IDs: []string{"a", "b"}, Next: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := open(t, Config{Source: fixed{page: page}, AddRows: 2})
			var err error
			for range 2 { // the same row is no mistake the first time
				if err == nil {
					_, err = tr.Jobs()[0].Slice(t.Context())
				}
			}
			wantError(t, err, ErrSource)
			if got := stats(t, tr).Passes; got != 0 {
				t.Errorf("Passes = %d, want none", got)
			}
		})
	}
}

// TestRowsThatCannotBeTracked are left out and reported, and block no others.
func TestRowsThatCannotBeTracked(t *testing.T) {
	t.Parallel()
	work := &table{}
	var logged bytes.Buffer
	tr := open(t, Config{Source: work, AddRows: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	work.start("", strings.Repeat("x", 513), "good")
	pass(t, tr)
	if diff := cmp.Diff([]string{"good"}, tracked(t, tr)); diff != "" {
		t.Errorf("tracked (-want +got):\n%s", diff)
	}
	if got := strings.Count(logged.String(), "level=WARN"); got != 2 {
		t.Errorf("log = %q, want two warnings", logged.String())
	}
}

func TestOddIdentifiers(t *testing.T) {
	t.Parallel()
	work := &table{}
	tr := open(t, Config{Source: work})
	ids := []string{"\x00", "\xff\xfe", "a b", "{x}", "'; --", "0", "-1", "inf", "ünï", strings.Repeat("x", 512)}
	work.start(ids[:5]...)
	add(t, tr, ids...)
	pass(t, tr)
	verifyOne(t, tr)
	for i, id := range ids {
		want := Queued
		if i >= 5 {
			want = NotQueued
		}
		wantState(t, tr, id, want)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, name := range []string{"", "a{b", "a}", "\x00", "a\nb", "\x7f", strings.Repeat("n", 513)} {
		_, err := New(client, name, Config{})
		wantError(t, err, millrace.ErrBadName)
	}
	for _, cfg := range []Config{
		{AddRows: -1}, {AddRows: maxRows + 1}, {VerifyIDs: -1}, {VerifyIDs: MaxIDs + 1}, {Grace: -1}, {Grace: time.Microsecond},
	} {
		_, err := New(client, "x", cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	tr := open(t, Config{})
	for _, id := range []string{"", strings.Repeat("x", 513)} {
		wantError(t, tr.Add(t.Context(), "good", id), millrace.ErrBadArgument)
		_, err := tr.Queued(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
	}
	if got := tracked(t, tr); len(got) != 0 {
		t.Errorf("tracked = %q, want a refused call to change nothing", got)
	}
}

// enlister counts its calls.
type enlister struct{ count int }

func (e *enlister) Enlist(context.Context) { e.count++ }

func TestEnlister(t *testing.T) {
	t.Parallel()
	e := &enlister{}
	tr := open(t, Config{Enlister: e})
	add(t, tr, "x")
	wantState(t, tr, "x", Queued)
	if _, err := tr.Queued(t.Context(), "x", "y", "z"); err != nil {
		t.Fatal(err)
	}
	if got, want := e.count, 2; got != want {
		t.Errorf("%d moments, want %d: one for each call that asks", got, want)
	}
}
