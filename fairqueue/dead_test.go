package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace/millrace"
)

// dies writes messages with the bodies 0, 1, ... and has them die, each with a reason of two.
func dies(t *testing.T, q *Queue, n int) {
	t.Helper()
	for i := range n {
		if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprintf("t%d", i%2), Body: fmt.Appendf(nil, "%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range read(t, q, n) {
		reason := "timeout"
		if len(m.Body) > 1 {
			reason = "refused"
		}
		nack(t, q, NackConfig{Dead: true, Reason: reason}, m)
	}
}

// TestDeadGroups counts dead messages by reason, and the reason finds those of a group.
func TestDeadGroups(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	dies(t, q, 12)
	groups, found, err := q.Failures(ctx, SearchConfig{State: Dead})
	if err != nil || len(groups) != 2 || groups[0].Reason != "timeout" || groups[0].Count != 10 || groups[1].Count != 2 || found.Looked != 12 || found.Total != 12 {
		t.Fatalf("groups %+v, %+v: %v", groups, found, err)
	}
	if got, _, _ := search(t, q, SearchConfig{State: Dead, Reason: "refused"}); len(got) != 2 {
		t.Fatalf("%d were refused, want 2", len(got))
	}
}

// TestMatching redrives and purges matching messages and no others, in calls that go on.
func TestMatching(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	_, _, err := q.Retry(ctx, SearchConfig{State: Dead})
	wantError(t, err, millrace.ErrNotFound)
	dies(t, q, 25) // 10 of "timeout", 15 of "refused"

	n, found, err := q.Retry(ctx, SearchConfig{State: Dead, Reason: "refused", Tenant: "t1", Look: 1000})
	if err != nil || n != 7 || found.Looked != 25 || found.Total != 25 || found.Next != "" || found.Messages != nil {
		t.Fatalf("redrove %d, %+v: %v", n, found, err)
	}
	if s := stats(t, q); s.Waiting != 7 || s.Dead != 18 {
		t.Fatalf("%d wait and %d are dead, want 7 and 18", s.Waiting, s.Dead)
	}
	purged, calls := 0, 0
	for cfg := (SearchConfig{Reason: "timeout", Look: 4}); ; calls++ { // in calls that go on
		n, found, err := q.Dead().PurgeMatching(ctx, cfg)
		if err != nil || found.Looked > 4 {
			t.Fatalf("purged %d, %+v: %v", n, found, err)
		}
		if purged += n; found.Next == "" {
			break
		}
		cfg.After = found.Next
	}
	if s := stats(t, q); purged != 10 || s.Dead != 8 || calls < 4 {
		t.Fatalf("purged %d in %d calls, and %d are dead, want 10 and 8", purged, calls, s.Dead)
	}
	_, _, err = q.Dead().PurgeMatching(ctx, SearchConfig{Look: -1})
	wantError(t, err, millrace.ErrBadArgument)
}

// TestMatchingEnds: messages that die again while others are redriven are left.
func TestMatchingEnds(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	dies(t, q, 12)
	redrive := func(ctx context.Context, ids ...string) (int, error) {
		n, err := q.Dead().Redrive(ctx, ids...)
		for _, m := range read(t, q, n) {
			nack(t, q, NackConfig{Dead: true, Reason: "again"}, m)
		}
		return n, err
	}
	n, found, err := q.eachMatching(t.Context(), SearchConfig{State: Dead, Look: 5}, redrive)
	if err != nil || n != 5 || found.Looked != 5 || found.Next == "" {
		t.Fatalf("redrove %d, %+v: %v", n, found, err)
	}
	n, found, err = q.eachMatching(t.Context(), SearchConfig{State: Dead}, redrive)
	if err != nil || n != 12 || found.Looked != 12 {
		t.Fatalf("redrove %d, %+v: %v", n, found, err)
	}
}

// TestMatchingIsCut: a call that fails says where to repeat it.
func TestMatchingIsCut(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	dies(t, q, 12)
	_, first, err := q.Dead().PurgeMatching(t.Context(), SearchConfig{Reason: "none", Look: 5})
	if err != nil || first.Next == "" {
		t.Fatalf("%+v: %v", first, err)
	}
	failed := errors.New("cut")
	_, found, err := q.eachMatching(t.Context(), SearchConfig{State: Dead, After: first.Next}, func(context.Context, ...string) (int, error) { return 0, failed })
	if !errors.Is(err, failed) || found.Next != first.Next {
		t.Fatalf("Next is %q, want %q: %v", found.Next, first.Next, err)
	}
}
