package metrics

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/metrics/trackermetrics"
	"github.com/millrace/millrace/tracker"
)

// busy is a tracker's source: identifiers with queued work, all on one page.
type busy []string

func (b busy) Rows(context.Context, string, int) (tracker.Page, error) {
	return tracker.Page{IDs: b, Looked: len(b)}, nil
}

func (b busy) Pending(context.Context, []string) ([]string, error) { return b, nil }

func newTracker(t *testing.T, client rueidis.Client, name string, hook *hook) *tracker.Tracker {
	t.Helper()
	tr, err := tracker.New(client, name, tracker.Config{
		Source: busy{"a", "b"}, Grace: time.Millisecond, Hooks: []millrace.Hook{hook},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestTrackerCollector(t *testing.T) {
	t.Parallel()
	reg, hook := fresh(t)
	tr := newTracker(t, redistest.Shared(t).Client(t), redistest.Name(t), hook)
	register(t, reg, trackermetrics.Collector(tr))
	name := "tracker=" + tr.Name()
	counts := []string{"identifiers", "passes_total", "added_total", "confirmed_total", "removed_total"}
	ages := []string{"oldest_check_seconds", "pass_age_seconds", "pass_seconds", "cursor_age_seconds"}
	wantSamples(t, reg, "tracker_", unlabelled("tracker_", name, append(counts, ages...), nil)) // it does not exist yet

	ctx := t.Context()
	if err := tr.Add(ctx, "finished"); err != nil {
		t.Fatal(err)
	}
	if err := tr.Fill(ctx, nil); err != nil {
		t.Fatal(err)
	}
	verify := tr.Jobs()[1]
	redistest.Eventually(t, "all are verified", func() bool {
		if _, err := verify.Slice(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := tr.Stats(ctx)
		return err == nil && s.Counters.Confirmed >= 2 && s.Counters.Removed == 1
	})
	s, err := tr.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := unlabelled("tracker_", name, counts, map[string]float64{
		"identifiers": 2, "passes_total": 1, "added_total": 3, "removed_total": 1, "confirmed_total": float64(s.Counters.Confirmed),
	})
	var got map[string]float64
	redistest.Eventually(t, "a millisecond has passed", func() bool {
		got = scrape(t, reg, "tracker_")
		return got["tracker_oldest_check_seconds{"+name+"}"] > 0 && got["tracker_cursor_age_seconds{"+name+"}"] > 0
	})
	for _, figure := range ages {
		sample := "tracker_" + figure + "{" + name + "}"
		if age, ok := got[sample]; !ok || age < 0 || age > 60 {
			t.Errorf("%s = %v (%t), want some seconds at most", sample, age, ok)
		}
		delete(got, sample)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples without the ages (-want +got):\n%s", diff)
	}
}
