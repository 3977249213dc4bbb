package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/tracker"
)

var trackerBehaviours = []behaviour{
	{"unknown, then right", trackerLife},
	{"several processes share a pass", trackerShares},
	{"what is deleted is unknown", trackerDelete},
}

// table is a tracker's source in memory: rows of work that is queued.
type table struct {
	mu   sync.Mutex
	last int
	rows []row // in the order of their places
}

// row is work that is queued for an identifier.
type row struct {
	id    string
	place string
}

// start queues work for identifiers.
func (s *table) start(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.last++
		s.rows = append(s.rows, row{id, fmt.Sprintf("%09d", s.last)})
	}
}

// finish ends the work of identifiers.
func (s *table) finish(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = slices.DeleteFunc(s.rows, func(r row) bool { return slices.Contains(ids, r.id) })
}

func (s *table) Rows(_ context.Context, after string, limit int) (tracker.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page tracker.Page
	for _, r := range s.rows {
		if r.place <= after {
			continue
		}
		page.IDs, page.Next, page.Looked = append(page.IDs, r.id), r.place, page.Looked+1
		if page.Looked == min(limit, tracker.MaxIDs) {
			return page, nil
		}
	}
	page.Next = ""
	return page, nil
}

func (s *table) Pending(_ context.Context, ids []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, r := range s.rows {
		if slices.Contains(ids, r.id) {
			list = append(list, r.id)
		}
	}
	return list, nil
}

// ids returns the identifiers that have work queued, each of which has one row.
func (s *table) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, len(s.rows))
	for i, r := range s.rows {
		list[i] = r.id
	}
	return list
}

// openTracker opens a tracker that may verify identifiers seen a millisecond ago.
func openTracker(t *testing.T, client rueidis.Client, name string, source tracker.Source) *tracker.Tracker {
	t.Helper()
	tr, err := tracker.New(client, name, tracker.Config{Source: source, AddRows: 10, VerifyIDs: 10, Grace: time.Millisecond})
	must(t, "tracker.New", err)
	return tr
}

func trackerOf(t *testing.T, on running, source tracker.Source) *tracker.Tracker {
	t.Helper()
	return openTracker(t, on.client(t), redistest.Name(t), source)
}

func wantState(t *testing.T, tr *tracker.Tracker, state tracker.State, ids ...string) {
	t.Helper()
	answers, err := tr.Queued(t.Context(), ids...)
	must(t, "Queued", err)
	for i, a := range answers {
		want(t, "state of "+ids[i], a.State, state, nil)
	}
}

// awaitPasses runs add slices until so many full passes are over.
func awaitPasses(t *testing.T, tr *tracker.Tracker, passes int64) {
	t.Helper()
	runUntil(t, tr.Jobs()[0], "passes are over", func() bool {
		s, err := tr.Stats(t.Context())
		must(t, "Stats", err)
		return s.Passes >= passes
	})
}

func trackerLife(t *testing.T, on running) {
	source := &table{}
	tr := trackerOf(t, on, source)
	other := openTracker(t, on.client(t), tr.Name(), nil)
	busy := members(35)
	source.start(busy...)
	wantState(t, other, tracker.Unknown, "idle", busy[0])
	must(t, "Add", other.Add(t.Context(), busy[0]))
	wantState(t, other, tracker.Queued, busy[0])
	wantState(t, other, tracker.Unknown, "idle", busy[1])
	awaitPasses(t, tr, 1)
	wantState(t, other, tracker.Queued, busy...)
	wantState(t, other, tracker.NotQueued, "idle")
	source.finish(busy[:20]...)
	runUntil(t, tr.Jobs()[1], "what has finished is removed", func() bool {
		s, err := other.Stats(t.Context())
		must(t, "Stats", err)
		return s.Tracked == 15
	})
	wantState(t, other, tracker.NotQueued, busy[:20]...)
	wantState(t, other, tracker.Queued, busy[20:]...)
}

// trackerShares has processes walk at the same time. A slice that is overtaken
// changes nothing, so each identifier is added once.
func trackerShares(t *testing.T, on running) {
	source, busy := &table{}, members(200)
	source.start(busy...)
	name := redistest.Name(t)
	var all sync.WaitGroup
	for range 3 {
		tr := openTracker(t, on.client(t), name, source)
		all.Go(func() {
			if err := tr.Fill(t.Context(), nil); err != nil {
				t.Errorf("Fill = %v", err)
			}
		})
		all.Go(func() { awaitPasses(t, tr, 2) })
	}
	all.Wait()
	tr := openTracker(t, on.client(t), name, nil)
	wantState(t, tr, tracker.Queued, busy...)
	wantState(t, tr, tracker.NotQueued, "idle")
	s, err := tr.Stats(t.Context())
	want(t, "identifiers tracked and added", []int{s.Tracked, int(s.Counters.Added)}, []int{len(busy), len(busy)}, err)
}

func trackerDelete(t *testing.T, on running) {
	source := &table{}
	source.start("a", "b")
	tr := trackerOf(t, on, source)
	must(t, "Fill", tr.Fill(t.Context(), nil))
	wantState(t, tr, tracker.NotQueued, "idle")
	n, err := tr.Delete(t.Context())
	want(t, "Delete", n, 2, err)
	want(t, "keys left", len(stored(t, on, tr.Name())), 0, nil)
	wantState(t, tr, tracker.Unknown, "a", "idle")
	must(t, "Fill", tr.Fill(t.Context(), nil))
	wantState(t, tr, tracker.Queued, "a", "b")
}
