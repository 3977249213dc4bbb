package fairqueue

import (
	"fmt"
	"slices"
	"testing"

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
		"bounded id": {SearchConfig{ID: written[129].ID, Look: 129}, 1, 130, 2},
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
