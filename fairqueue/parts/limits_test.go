package parts

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestShares: the shares of a limit add up to it, and none is 0, which would be no limit.
func TestShares(t *testing.T) {
	t.Parallel()
	q := onShared(t, 8)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "parts")
		limit := rapid.IntRange(n, 1000).Draw(t, "limit")
		inFlight, burst, waiting := 0, 0, 0
		for at := range n {
			l := q.share(fairqueue.OwnLimits{MaxInFlight: &limit, Burst: &limit, MaxWaiting: &limit}, at, n)
			if *l.MaxInFlight < 1 {
				t.Fatalf("part %d of %d gets %d of %d", at, n, *l.MaxInFlight, limit)
			}
			inFlight, burst, waiting = inFlight+*l.MaxInFlight, burst+*l.Burst, waiting+*l.MaxWaiting
		}
		if inFlight != limit || burst != limit || waiting != limit {
			t.Fatalf("the shares of %d add up to %d, %d, %d", limit, inFlight, burst, waiting)
		}
	})
}

// TestLimits: limits hold over the parts of a tenant together, and a tenant that is full closes
// no part.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]string{"of its own": "a", "default": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := onShared(t, 4)
			most, inFlight := 5, 3
			if name == "default" {
				most, inFlight = 4, 2 // rounded down
			}
			if err := q.Limits().Set(t.Context(), of, fairqueue.OwnLimits{MaxWaiting: new(5), MaxInFlight: new(3)}); err != nil {
				t.Fatal(err)
			}
			drafts := many(8, "a")
			written, err := q.WriteBatch(t.Context(), drafts...)
			got := 0
			for _, w := range written {
				if w.ID != "" {
					got++
				}
			}
			if got != most || !errors.Is(err, fairqueue.ErrTenantFull) {
				t.Fatalf("%d were written, %v", got, err)
			}
			if _, err := q.Write(t.Context(), drafts[0]); !errors.Is(err, fairqueue.ErrTenantFull) {
				t.Errorf("one more: %v", err)
			}
			for _, p := range q.parts {
				if now, _ := p.look(); now != open {
					t.Errorf("part %d is closed because a tenant is full", p.index)
				}
			}
			read := 0
			for range 4 * len(q.parts) {
				messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: 10})
				if err != nil && !errors.Is(err, fairqueue.ErrEmpty) {
					t.Fatal(err)
				}
				read += len(messages)
			}
			if read != inFlight {
				t.Errorf("%d in flight, not %d", read, inFlight)
			}
			if err := q.Limits().Clear(t.Context(), of); err != nil {
				t.Fatal(err)
			}
			write(t, q, drafts...)
		})
	}
}

func TestLimitsBelowTheParts(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	for _, l := range []fairqueue.OwnLimits{
		{MaxInFlight: new(1)}, {MaxWaiting: new(1)}, {Rate: new(10.0), Burst: new(1)}, {MaxInFlight: new(-1)}, {MaxShare: new(2.0)},
	} {
		err := q.Limits().Set(t.Context(), "a", l)
		if !errors.Is(err, millrace.ErrBadArgument) || errors.Is(err, millrace.ErrPartial) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for i, part := range q.Parts() {
		if _, err := part.Limits().Get(t.Context(), ""); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("part %d was created: %v", i, err)
		}
	}
}

// TestTenantIsPaused: a pause reaches all parts of a tenant, and a purge all messages.
func TestTenantIsPaused(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	a := "a"
	if err := q.Limits().Pause(t.Context(), a, 0); !errors.Is(err, millrace.ErrNotFound) {
		t.Fatalf("a pause before the first message: %v", err)
	}
	if err := q.Limits().Set(t.Context(), a, fairqueue.OwnLimits{Paused: new(true)}); err != nil {
		t.Fatal(err)
	}
	write(t, q, many(20, "a")...)
	waits := func() {
		t.Helper()
		for range 4 {
			if _, err := q.Read(t.Context(), fairqueue.ReadConfig{}); !errors.Is(err, fairqueue.ErrEmpty) {
				t.Fatalf("a paused tenant: %v", err)
			}
		}
	}
	waits()
	for _, change := range []func() error{
		func() error { return q.Limits().Pause(t.Context(), a, 0) },
		func() error { return q.Limits().Clear(t.Context(), a) }, // which leaves the pause
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	waits()
	if err := q.Limits().Resume(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if m, err := q.Read(t.Context(), fairqueue.ReadConfig{Block: time.Minute}); err != nil || len(m) != 1 {
		t.Fatalf("resumed: %v, %v", m, err)
	}
	if n, err := q.PurgeTenant(t.Context(), a); n != 19 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
}

// TestRefusedMoves: a message that a part certainly did not write goes to the tenant's next part, unless
// only that part may have it.
func TestRefusedMoves(t *testing.T) {
	t.Parallel()
	q, list := servers(t, 2, nil)
	write(t, q, many(1, "a", "b")...)
	full := list[0].Client(t)
	maxMemory := func(bytes string) {
		t.Helper()
		if err := full.Do(t.Context(), full.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", bytes).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	maxMemory("1")
	for i := range 10 {
		for j, w := range write(t, q, many(3, "a", "b")...) {
			if !strings.HasPrefix(w.ID, "1.") {
				t.Errorf("batch %d, message %d: %+v", i, j, w)
			}
		}
	}
	fixed := 0
	for q.choose(fairqueue.Draft{Tenant: "a", DedupeID: fmt.Sprint(fixed)}, nil).index != 0 {
		fixed++
	}
	if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a", DedupeID: fmt.Sprint(fixed)}); !errors.Is(err, millrace.ErrFull) {
		t.Errorf("a dedupe id of the full part: %v", err)
	}

	// Looks find it full, too, although it reports its load.
	failures := func() int {
		q.parts[0].look()
		q.parts[0].mu.Lock()
		defer q.parts[0].mu.Unlock()
		return q.parts[0].failed
	}
	before := failures()
	redistest.Eventually(t, "two looks have failed", func() bool { return failures() >= before+2 })
	maxMemory("0")
	redistest.Eventually(t, "the part takes messages again", func() bool { return failures() == 0 })
}
