package fairqueue

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

func limit(t *testing.T, q *Queue, of string, l queuestats.Limits) {
	t.Helper()
	want(t, "Limits.Set", nil, nil, q.Limits().Set(t.Context(), of, ownOf(l)))
}

func writeAll(t *testing.T, q *Queue, n int, d Draft) {
	t.Helper()
	drafts := make([]Draft, n)
	for i := range drafts {
		drafts[i] = d
	}
	if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
}

// TestMaxInFlight: also while the limit changes.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	limit(t, q, "", queuestats.Limits{MaxInFlight: 2})
	limit(t, q, "p", queuestats.Limits{MaxInFlight: 1})
	writeAll(t, q, 5, Draft{Tenant: "a"})
	writeAll(t, q, 5, Draft{Tenant: "p"})
	writeAll(t, q, 5, Draft{Tenant: "q"})
	count := func(messages []Message) map[string]int {
		counts := map[string]int{}
		for _, m := range messages {
			counts[m.Tenant]++
		}
		return counts
	}
	first := read(t, q, 50)
	want(t, "deliveries", count(first), map[string]int{"a": 2, "p": 1, "q": 2}, nil)
	want(t, "more", len(read(t, q, 50)), 0, nil)
	limit(t, q, "a", queuestats.Limits{MaxInFlight: 3})
	want(t, "after a raise", count(read(t, q, 50)), map[string]int{"a": 1}, nil)
	ack(t, q, first...)
	want(t, "after acknowledgements", count(read(t, q, 50)), map[string]int{"a": 2, "p": 1, "q": 2}, nil)
	want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), "p"))
	want(t, "with the default", count(read(t, q, 50)), map[string]int{"p": 1}, nil)
	want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), ""))
	want(t, "without it", count(read(t, q, 50)), map[string]int{"p": 2, "q": 1}, nil)
}

// TestRate: a burst, and then one each interval.
func TestRate(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	limit(t, q, "", queuestats.Limits{Rate: 0.001, Burst: 3})
	writeAll(t, q, 9, Draft{Tenant: "a"})
	writeAll(t, q, 9, Draft{Tenant: "p"})
	want(t, "a burst of each", len(read(t, q, 50)), 6, nil)
	want(t, "more", len(read(t, q, 50)), 0, nil)
	for _, f := range stats(t, q).Flows {
		if f.Tenant == "a" && (f.NotBefore.IsZero() || f.Limits.Burst != 3) {
			t.Errorf("the flow is %+v", f)
		}
	}
	limit(t, q, "", queuestats.Limits{})
	want(t, "after the default was lifted", len(read(t, q, 50)), 12, nil)
}

// TestPauses: pauses, throttles, and their ends.
func TestPauses(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, tenant := range []string{"a", "p", "q"} {
		writeAll(t, q, 2, Draft{Tenant: tenant})
	}
	ctx := t.Context()
	want(t, "pause", nil, nil, q.Limits().Pause(ctx, "a", 0))
	want(t, "pause", nil, nil, q.Limits().Pause(ctx, "p", time.Hour))
	writeAll(t, q, 1, Draft{Tenant: "a"})
	got := read(t, q, 50)
	want(t, "deliveries", len(got), 2, nil)
	want(t, "resume", nil, nil, q.Limits().Resume(ctx, "p"))
	want(t, "deliveries", len(read(t, q, 50)), 2, nil)
	want(t, "resume", nil, nil, q.Limits().Resume(ctx, "a"))
	m := read(t, q, 1)[0]
	back := settlement{m.receipt(), "t", settleArg(time.Hour, "slow down")}
	_, err := q.shared.work(ctx, []workRequest{{q: q, settle: []settlement{back}}}, false)
	want(t, "throttle", len(read(t, q, 50)), 0, err)
	want(t, "resume", nil, nil, q.Limits().Resume(ctx, "a"))
	again := read(t, q, 50)
	want(t, "the same one comes first, and that was no attempt", []any{len(again), again[0].ID, again[0].Attempt}, []any{3, m.ID, 1}, nil)
	writeAll(t, q, 2, Draft{Tenant: "p", Delay: time.Hour})
	writeAll(t, q, 2, Draft{Tenant: "p"})
	n, err := q.PurgeTenant(ctx, "p")
	want(t, "purged", n, 4, err)
}

// TestMaxWaiting refuses messages beyond the limit, and nothing else.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	limit(t, q, "q", queuestats.Limits{MaxWaiting: 3})
	limit(t, q, "p", queuestats.Limits{MaxWaiting: 1})
	var drafts []Draft
	for i := range 12 {
		drafts = append(drafts, Draft{Tenant: []string{"p", "q"}[i%2]}, Draft{Tenant: "free"})
	}
	written, err := q.WriteBatch(t.Context(), drafts...)
	wantError(t, err, ErrTenantFull)
	counts := map[string]int{}
	for i, w := range written {
		if w.ID != "" {
			counts[drafts[i].Tenant]++
		}
	}
	want(t, "written", counts, map[string]int{"p": 1, "q": 3, "free": 12}, nil)
	if err := Throttle(time.Second, nil); err != nil || !errors.Is(Throttle(time.Second, ErrEmpty), ErrEmpty) {
		t.Error("Throttle is not its error")
	}
}

// TestResumeFromAPausedDefault gives the tenant a limit of its own.
func TestResumeFromAPausedDefault(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1 b:2")
	want(t, "pause all", nil, nil, q.Limits().Set(t.Context(), "", OwnLimits{Paused: new(true)}))
	want(t, "messages of a paused queue", bodies(read(t, q, 10)), "", nil)
	want(t, "resume a", nil, nil, q.Limits().Resume(t.Context(), "a"))
	want(t, "messages", bodies(read(t, q, 10)), "1", nil)
}

// TestLimitsHalveReads: where limits count deliveries, a general call takes at most 50 messages from the second one on, and Read
// still returns as many as wait.
func TestLimitsHalveReads(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "q", Config{})
	scripts := func() (n int) {
		_, _ = fmt.Sscanf(server.Info("commandstats")["cmdstat_evalsha"], "calls=%d,", &n)
		return n
	}
	limit(t, q, "", queuestats.Limits{MaxInFlight: 1000, Rate: 1e5})
	if _, err := q.WriteBatch(t.Context(), manyDrafts(500, Draft{})...); err != nil {
		t.Fatal(err)
	}
	q.shared.general.until.Store(math.MaxInt64)
	if got := read(t, q, 1); len(got) != 1 { // it finds the limits
		t.Fatalf("read %q, want one", bodies(got))
	}
	for most, calls := range map[int]int{50: 1, 99: 2, 250: 5} {
		before := scripts()
		messages, err := q.Read(t.Context(), ReadConfig{Max: most, Visibility: time.Hour})
		want(t, fmt.Sprint("messages of ", most), len(messages), most, err)
		want(t, fmt.Sprint("calls for ", most), scripts()-before, calls, nil)
	}
}
