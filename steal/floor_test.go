package steal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace"
)

// TestFloorRunsWhatIsNotDrawn: a job with the rate 0 runs once an interval of the floor, beside one that is
// always drawn.
func TestFloorRunsWhatIsNotDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{})
		last, shortest, longest := time.Now(), time.Hour, time.Duration(0)
		install(t, r, 0, millrace.Job{Name: "floored", Slice: func(context.Context) (millrace.Progress, error) {
			gap := time.Since(last)
			last, longest = time.Now(), max(longest, gap)
			if shortest == time.Hour {
				shortest = time.Hour - 1 // the first run may come early
			} else {
				shortest = min(shortest, gap)
			}
			return millrace.Idle, nil
		}})
		install(t, r, 0.5, answers("drawn", millrace.Worked, nil))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for range 1000 {
			time.Sleep(time.Second)
			for range 100 {
				r.Enlist(ctx)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want the context's cause", err)
		}
		s := jobStats(t, r, "floored")
		if s.Floored < 80 || s.Drawn != 0 || s.Idle != s.Floored {
			t.Errorf("stats = %+v, want at least 80 runs in 1000 s, all by the floor and idle", s)
		}
		if shortest < defaultFloor || longest > defaultFloor*5/4 {
			t.Errorf("gaps between runs = %s to %s, want %s to a quarter more", shortest, longest, defaultFloor)
		}
		if got := jobStats(t, r, "drawn").Floored; got > 1 { // the first may come before any draw
			t.Errorf("floor runs of a job that is drawn often = %d, want none", got)
		}
	})
}

func TestCloseWaitsForSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{})
		end := make(chan struct{})
		install(t, r, 1, millrace.Job{Name: "x", Slice: func(context.Context) (millrace.Progress, error) {
			<-end
			return millrace.Worked, nil
		}})
		run := make(chan error, 1)
		go func() { run <- r.Run(t.Context()) }()
		go r.Enlist(t.Context())
		synctest.Wait()

		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close with a slice under way = %v, want the context's cause", err)
		}
		if err := <-run; err != nil {
			t.Errorf("Run after Close = %v, want nil", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- r.Close(t.Context()) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned before the slice")
		default:
		}
		close(end)
		if err := <-closed; err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		r.Enlist(t.Context())
		if got, want := jobStats(t, r, "x").Recruited(), int64(1); got != want {
			t.Errorf("recruited = %d, want %d and none after Close", got, want)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("Close once more = %v, want nil", err)
		}
	})
}

// Slices that ignore their contexts take no slot from other jobs, and delay the floor of no other
// by more than twice the budget. Each job has one goroutine at most.
func TestFloorOfOthersWhileJobsHang(t *testing.T) {
	for _, perProcess := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			r := New(Config{PerProcess: perProcess, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			end := make(chan struct{})
			calls := map[string]*atomic.Int64{}
			for _, name := range []string{"first", "second", "third"} {
				called := &atomic.Int64{}
				calls[name] = called
				install(t, r, 0, millrace.Job{Name: name, Slice: func(context.Context) (millrace.Progress, error) {
					called.Add(1)
					<-end
					return millrace.Worked, nil
				}})
			}
			last, longest := time.Now(), time.Duration(0)
			install(t, r, 0, millrace.Job{Name: "sound", Slice: func(context.Context) (millrace.Progress, error) {
				last, longest = time.Now(), max(longest, time.Since(last))
				return millrace.Idle, nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if most := defaultFloor*5/4 + 3*2*defaultBudget; longest > most || time.Since(last) > most {
				t.Errorf("the sound job ran after %s, and %s ago, want at most %s", longest, time.Since(last), most)
			}
			if got := jobStats(t, r, "sound"); got.Aborted != 0 || got.Hanging != 0 {
				t.Errorf("stats of the sound job = %+v, want no abort", got)
			}
			for name, n := range calls {
				if got := jobStats(t, r, name); n.Load() != 1 || got.Running != 1 || got.Hanging != 1 {
					t.Errorf("%s: %d calls and stats %+v, want 1 that hangs", name, n.Load(), got)
				}
			}
			for name := range calls {
				if got := strings.Count(log.String(), "waits for it\" job="+name); got < 10 || got > 60 { // in ten minutes
					t.Errorf("the log has %d times that %s hangs, want it at most every 10 s", got, name)
				}
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v, want the context's cause", err)
			}
			close(end)
			if err := r.Close(t.Context()); err != nil {
				t.Errorf("Close = %v, want nil after the slices", err)
			}
			if got := jobStats(t, r, "first"); got.Running != 0 || got.Hanging != 0 || got.Worked != 1 {
				t.Errorf("stats after its end = %+v, want one that worked", got)
			}
		})
	}
}
