package steal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
)

// TestRatesChange: a rate holds from the next enlistment on, within the chance that the other jobs
// leave.
func TestRatesChange(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	install(t, r, 0.5, answers("a", millrace.Worked, nil))
	install(t, r, 0.25, answers("b", millrace.Worked, nil))
	r.random = drawing(0.5)
	for i, step := range []struct {
		name string
		rate float64
		err  error
		a, b int64 // drawn after one more enlistment
	}{
		{"a", 0.5, nil, 0, 1},
		{"a", 0.75, nil, 1, 1},
		{"a", 0.875, millrace.ErrBadArgument, 2, 1},
		{"a", math.NaN(), millrace.ErrBadArgument, 3, 1},
		{"b", -1, millrace.ErrBadArgument, 4, 1},
		{"c", 0.1, millrace.ErrNotFound, 5, 1},
		{"a", 0, nil, 5, 1},
		{"b", 1, nil, 5, 2},
	} {
		before := r.Stats().Jobs
		if err := r.SetRate(step.name, step.rate); !errors.Is(err, step.err) {
			t.Errorf("step %d: SetRate = %v, want %v", i, err, step.err)
		}
		if diff := cmp.Diff(before, r.Stats().Jobs); step.err != nil && diff != "" {
			t.Errorf("step %d: refused, and (-before +after):\n%s", i, diff)
		}
		r.Enlist(t.Context())
		if a, b := jobStats(t, r, "a").Drawn, jobStats(t, r, "b").Drawn; a != step.a || b != step.b {
			t.Errorf("step %d: drawn %d and %d times, want %d and %d", i, a, b, step.a, step.b)
		}
	}
	if a, b := jobStats(t, r, "a").Rate, jobStats(t, r, "b").Rate; a != 0 || b != 1 {
		t.Errorf("rates = %v and %v, want 0 and 1", a, b)
	}
}

// TestJobIsRemoved: no slice of it begins any more, neither drawn nor by the floor, one
// under way goes on, and its name and its rate are free.
func TestJobIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{PerJob: 2})
		began, end, slices := make(chan bool), make(chan bool), 0
		install(t, r, 1, millrace.Job{Name: "x", Slice: func(context.Context) (millrace.Progress, error) {
			slices++
			close(began)
			<-end
			return millrace.Worked, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		go r.Enlist(ctx)
		<-began
		drawn := r.table.Load().at(0)
		if err := r.Remove("x"); err != nil {
			t.Fatal(err)
		}
		if err := r.Remove("x"); !errors.Is(err, millrace.ErrNotFound) {
			t.Errorf("second Remove = %v, want ErrNotFound", err)
		}
		if r.admit(ctx, drawn, false) { // who drew it just before
			t.Error("a slice of a job that was removed begins")
		}
		r.Enlist(ctx)
		time.Sleep(10 * defaultFloor)
		if jobs := r.Stats().Jobs; slices != 1 || len(jobs) != 0 {
			t.Errorf("%d slices, jobs %v, want 1 and none", slices, jobs)
		}
		install(t, r, 1, answers("x", millrace.Worked, nil))
		r.Enlist(ctx)
		if got := jobStats(t, r, "x").Drawn; got != 1 {
			t.Errorf("the new job was drawn %d times, want once", got)
		}
		close(end)
		cancel()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestRatesChangeAtWork changes rates and jobs while others enlist.
func TestRatesChangeAtWork(t *testing.T) {
	t.Parallel()
	r := New(Config{PerJob: 4, PerProcess: 4})
	install(t, r, 0.5, answers("stays", millrace.Worked, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	for range 3 {
		go func() {
			for ctx.Err() == nil {
				r.Enlist(ctx)
			}
			done <- true
		}()
	}
	for i := range 1000 {
		install(t, r, 0.25, answers("comes", millrace.Idle, nil))
		if err := errors.Join(r.SetRate("stays", float64(i%3)/4), r.SetRate("comes", 0.5), r.Remove("comes")); err != nil {
			t.Fatal(err)
		}
		balanced(t, r.Stats())
	}
	cancel()
	for range 3 {
		<-done
	}
}

// panicking is a hook that panics.
type panicking struct{}

func (panicking) OnRecruit(context.Context, millrace.Recruited) { panic("a bug in a hook") }

// TestHookPanics: neither the caller nor the other hooks learn of it, the slot is given
// back, and the log has it once in a while.
func TestHookPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, h := &bytes.Buffer{}, &recorder{}
		r := New(Config{Hooks: []millrace.Hook{panicking{}, h}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		install(t, r, 1, answers("x", millrace.Worked, nil))
		for range 3 {
			r.Enlist(t.Context())
		}
		if len(h.ends) != 3 || jobStats(t, r, "x").Worked != 3 {
			t.Errorf("the other hook was told of %d recruits, stats %+v, want 3", len(h.ends), jobStats(t, r, "x"))
		}
		if n := strings.Count(log.String(), "a bug in a hook"); n != 1 {
			t.Errorf("%d lines in %q, want 1", n, log)
		}
		time.Sleep(reportEvery)
		r.Enlist(t.Context())
		if !strings.Contains(log.String(), "unreported=2") {
			t.Errorf("log = %q, want how often it was not told", log)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
