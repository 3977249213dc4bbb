package fairqueue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
)

// search returns the messages on all pages of a search, and how many messages they examined.
func search(t *testing.T, q *Queue, cfg SearchConfig) (all []Message, looked, pages int) {
	t.Helper()
	for {
		found, err := q.Search(t.Context(), cfg)
		if err != nil {
			t.Fatalf("search %+v: %v", cfg, err)
		}
		if cfg.Look > 0 && found.Looked > cfg.Look {
			t.Fatalf("search %+v examined %d messages", cfg, found.Looked)
		}
		all, looked, pages = append(all, found.Messages...), looked+found.Looked, pages+1
		if found.Next == "" {
			return all, looked, pages
		}
		cfg.After = found.Next
	}
}

// TestSearch finds messages by each thing that they have, within the bound.
func TestSearch(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	_, err := q.Search(ctx, SearchConfig{})
	wantError(t, err, millrace.ErrNotFound)

	var drafts []Draft
	for i := range 130 {
		drafts = append(drafts, Draft{
			Tenant: fmt.Sprintf("t%d", i%2), Body: fmt.Appendf(nil, "body-%03d", i), Headers: map[string]string{"k": fmt.Sprint(i % 10)},
		})
	}
	written, err := q.WriteBatch(ctx, drafts...)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg                SearchConfig
		found, look, pages int
	}{
		"all":        {SearchConfig{}, 130, 130, 2},
		"tenant":     {SearchConfig{Tenant: "t1"}, 65, 65, 1},
		"header":     {SearchConfig{Headers: map[string]string{"k": "3"}}, 13, 130, 1},
		"no header":  {SearchConfig{Headers: map[string]string{"other": ""}}, 0, 130, 1},
		"text":       {SearchConfig{Text: "y-12"}, 10, 130, 1},
		"both":       {SearchConfig{Text: "y-12", Tenant: "t0"}, 5, 65, 1},
		"bounded":    {SearchConfig{Text: "y-12", Look: 60}, 10, 130, 3},
		"bounded id": {SearchConfig{ID: written[129].ID, Look: 129}, 1, 1, 1},
	} {
		got, looked, pages := search(t, q, c.cfg)
		if len(got) != c.found || looked != c.look || pages != c.pages {
			t.Errorf("%s: found %d, examined %d on %d pages; want %d, %d, %d", name, len(got), looked, pages, c.found, c.look, c.pages)
		}
	}
	for name, cfg := range map[string]SearchConfig{
		"reason": {Reason: "r"}, "id": {ID: "x"}, "max": {Max: -1}, "look": {Look: maxLook + 1}, "state": {State: "x"}, "after": {After: "x"},
	} {
		if _, err := q.Search(ctx, cfg); millrace.Code(err) != millrace.ErrBadArgument.Code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSearchIsBoundedInBytes: a page fits into memory, whatever matches.
func TestSearchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	if _, err := q.WriteBatch(t.Context(), slices.Repeat([]Draft{{Tenant: "a", Body: make([]byte, 700<<10)}}, 5)...); err != nil {
		t.Fatal(err)
	}
	if got, looked, pages := search(t, q, SearchConfig{}); len(got) != 5 || looked != 5 || pages != 3 {
		t.Errorf("found %d, examined %d on %d pages; want 5, 5, 3", len(got), looked, pages)
	}
	if got, looked, pages := search(t, q, SearchConfig{Text: "x"}); len(got) != 0 || looked != 5 || pages != 1 {
		t.Errorf("of none, found %d, examined %d on %d pages; want 0, 5, 1", len(got), looked, pages)
	}
}

// TestSearchFar goes on over pages within one search.
func TestSearchFar(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for range 2 {
		if _, err := q.WriteBatch(t.Context(), slices.Repeat([]Draft{{Tenant: "a", Body: []byte("near")}}, 510)...); err != nil {
			t.Fatal(err)
		}
	}
	id, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte("far")})
	if err != nil {
		t.Fatal(err)
	}
	found, err := q.Search(t.Context(), SearchConfig{Text: "far"})
	if err != nil || len(found.Messages) != 1 || found.Messages[0].ID != id || found.Looked != 1021 || found.Next != "" {
		t.Fatalf("found %+v: %v", found, err)
	}
}

// TestSearchByID finds a message in each state among many that differ little, and examines no other unless it is in flight.
func TestSearchByID(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{}, {Streams: 4, PerTenant: 2}} {
		q := open(t, cfg)
		states := []State{Waiting, Delayed, InFlight, Dead}
		for i := range 300 {
			d := Draft{Tenant: fmt.Sprint("t", i%3), Priority: i%2 - 1, Body: []byte("x")}
			if i%3 == 0 {
				d.Delay = time.Hour
			}
			if _, err := q.Write(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		for i, m := range read(t, q, 100) {
			if i%2 == 0 {
				nack(t, q, NackConfig{Dead: true, Reason: "why"}, m)
			}
		}
		if cfg.Streams == 0 {
			if err := q.Limits().Pause(t.Context(), "t1", 0); err != nil {
				t.Fatal(err)
			}
		}
		places := map[string]State{}
		for _, state := range states {
			list, _, err := q.Browse(t.Context(), BrowseConfig{State: state, Max: 1000})
			if err != nil || len(list) < 50 {
				t.Fatalf("%d messages are %s, %v, want 50 at least", len(list), state, err)
			}
			for _, m := range list {
				places[m.ID] = state
			}
		}
		for id, at := range places {
			for _, state := range states {
				found, err := q.Search(t.Context(), SearchConfig{ID: id, State: state})
				want := 0
				if state == at {
					want = 1
				}
				if err != nil || len(found.Messages) != want || want == 1 && found.Messages[0].ID != id || state != InFlight && found.Looked > 1 {
					t.Fatalf("message %s, which is %s, as %s: %+v, %v", id, at, state, found, err)
				}
			}
		}
	}
}
