package steal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace"
)

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
