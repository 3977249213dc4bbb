package tracker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// table is a [Source] in memory.
type table struct {
	mu   sync.Mutex
	last int
	rows []row // in the order of their keys

	// during, if not nil, is called within a question, after the answer was read.
	during func()
}

type row struct {
	key  int
	id   string
	done bool // it was work, and is none any more
}

func (s *table) Rows(_ context.Context, after string, limit int) (Page, error) {
	s.mu.Lock()
	behind := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool { return "="+r.id <= after })
	s.mu.Unlock()
	slices.SortStableFunc(behind, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	var page Page
	live := map[string]bool{}
	for _, r := range behind {
		live[r.id] = live[r.id] || !r.done
	}
	for _, r := range behind {
		if page.Looked == limit || len(page.IDs) == MaxIDs { // it does not look whether there is more
			break
		}
		page.Looked++
		page.Next = "=" + r.id
		if live[r.id] {
			page.IDs = append(page.IDs, r.id)
		}
	}
	if page.Looked == len(behind) && page.Looked < limit {
		page.Next = ""
	}
	s.interrupt()
	return page, nil
}

func (s *table) Pending(_ context.Context, ids []string) ([]string, error) {
	list := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !s.has(id) })
	s.interrupt()
	return list, nil
}

// interrupt calls during, once.
func (s *table) interrupt() {
	if f := s.during; f != nil {
		s.during = nil
		f()
	}
}

// start queues work for identifiers, behind all other rows.
func (s *table) start(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.last++
		s.rows = append(s.rows, row{key: s.last, id: id})
	}
}

// startAt queues work in a row with that key: one whose transaction came late.
func (s *table) startAt(key int, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, row{key: key, id: id})
	slices.SortFunc(s.rows, func(a, b row) int { return cmp.Compare(a.key, b.key) })
}

// move queues work for an identifier in a row with that key, and ends that in all others at the
// same moment. The identifier always has work.
func (s *table) move(key int, id string, leave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leave {
		for i, r := range s.rows {
			s.rows[i].done = r.done || r.id == id
		}
	} else {
		s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return r.id == id })
	}
	s.rows = append(s.rows, row{key: key, id: id})
	slices.SortFunc(s.rows, func(a, b row) int { return cmp.Compare(a.key, b.key) })
}

func (s *table) taken(key int) bool {
	return slices.ContainsFunc(s.rows, func(r row) bool { return r.key == key })
}

// finish ends all work of identifiers, and removes their rows.
func (s *table) finish(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return slices.Contains(ids, r.id) })
}

// close ends all work of identifiers, and leaves their rows.
func (s *table) close(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rows {
		s.rows[i].done = r.done || slices.Contains(ids, r.id)
	}
}

func (s *table) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.rows, func(r row) bool { return r.id == id && !r.done })
}

// open returns a tracker on the shared server. It may verify identifiers seen a
// millisecond ago.
func open(t *testing.T, cfg Config) *Tracker {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func openOn(t *testing.T, client rueidis.Client, name string, cfg Config) *Tracker {
	t.Helper()
	cfg.Grace = cmp.Or(cfg.Grace, time.Millisecond)
	tr, err := New(client, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

func add(t *testing.T, tr *Tracker, ids ...string) {
	t.Helper()
	if err := tr.Add(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
}

// walkOne runs one add slice.
func walkOne(t *testing.T, tr *Tracker) {
	t.Helper()
	if _, err := tr.addSlice(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// verifyOne runs one verify slice, when the clock has passed the earlier
// steps.
func verifyOne(t *testing.T, tr *Tracker) {
	t.Helper()
	tick(t, tr)
	if _, err := tr.verifySlice(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pass runs large add slices until a pass is over. A sabotaged one may never be:
// the test then sees the wrong answers.
func pass(t *testing.T, tr *Tracker) {
	t.Helper()
	for range 10 {
		s, err := tr.walk(t.Context(), &tr.run, maxRows)
		if err != nil {
			t.Fatal(err)
		}
		if s.passes != s.at.passes {
			return
		}
	}
}

// state asks about an identifier.
func state(t *testing.T, tr *Tracker, id string) State {
	t.Helper()
	a, err := tr.Queued(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a[0].State
}

func wantState(t *testing.T, tr *Tracker, id string, want State) {
	t.Helper()
	if got := state(t, tr, id); got != want {
		t.Errorf("Queued(%q) = %v, want %v", id, got, want)
	}
}

func stats(t *testing.T, tr *Tracker) Stats {
	t.Helper()
	s, err := tr.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(t, client, args...).Error(); err != nil {
		t.Fatal(err)
	}
}

// clock returns the server's time in milliseconds.
func clock(t *testing.T, tr *Tracker) int64 {
	t.Helper()
	at, err := do(t, tr.run.Client, "TIME").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	seconds, _ := strconv.ParseInt(at[0], 10, 64)
	micros, _ := strconv.ParseInt(at[1], 10, 64)
	return seconds*1000 + micros/1000
}

// tick waits until the server's clock shows the next millisecond but one, so that
// all that was seen may be verified.
func tick(t *testing.T, tr *Tracker) {
	t.Helper()
	for began := clock(t, tr); clock(t, tr) < began+2; {
		continue
	}
}

// stamp returns an identifier's stamp, 0 when it is not tracked.
func stamp(t *testing.T, tr *Tracker, id string) int64 {
	t.Helper()
	f, err := do(t, tr.run.Client, "ZSCORE", idsKey(baseKey(tr.name)), id).AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return int64(f)
}

// setStamp changes an identifier's stamp past the library.
func setStamp(t *testing.T, tr *Tracker, id string, ms int64) {
	t.Helper()
	must(t, tr.run.Client, "ZADD", idsKey(baseKey(tr.name)), strconv.FormatInt(ms, 10), id)
}

// tracked returns all identifiers that are, sorted.
func tracked(t *testing.T, tr *Tracker) []string {
	t.Helper()
	ids, err := do(t, tr.run.Client, "ZRANGE", idsKey(baseKey(tr.name)), "0", "-1").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	slices.Sort(ids)
	return ids
}
