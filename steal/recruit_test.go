package steal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
)

var errTrouble = errors.New("trouble")

// A slice has a budget, nothing is tried again, and finding nothing is not taken
// for work or for a failure (W2 and W10 in docs/DEFECTS.md).
func TestOutcomes(t *testing.T) {
	t.Parallel()
	calls := 0
	tests := []struct {
		name   string
		slice  func(context.Context) (millrace.Progress, error)
		want   string
		rounds int
	}{
		{"worked", answers("", millrace.Worked, nil).Slice, Worked, 1},
		{"idle", answers("", millrace.Idle, nil).Slice, Idle, 1},
		{"error", answers("", millrace.Worked, errTrouble).Slice, Failed, 1},
		{"panic", func(context.Context) (millrace.Progress, error) { panic("at the mill") }, Panicked, 1},
		{"full for ever", answers("", millrace.More, nil).Slice, Worked, 20},
		{"full, then idle", func(context.Context) (millrace.Progress, error) {
			if calls++; calls < 4 {
				return millrace.More, nil
			}
			return millrace.Idle, nil
		}, Worked, 4},
		{"slow", func(ctx context.Context) (millrace.Progress, error) {
			<-ctx.Done()
			return millrace.Idle, ctx.Err()
		}, TimedOut, 1},
		{"full until the time is over", func(ctx context.Context) (millrace.Progress, error) {
			time.Sleep(10 * time.Millisecond)
			return millrace.More, ctx.Err()
		}, Worked, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &recorder{}
				r := New(Config{Hooks: []millrace.Hook{struct{}{}, hook}})
				install(t, r, 1, millrace.Job{Name: "x", Slice: test.slice})
				r.Enlist(t.Context())
				if len(hook.ends) != 1 {
					t.Fatalf("the hook was told %d times, want once", len(hook.ends))
				}
				end := hook.ends[0]
				if got, want := end.Outcome, test.want; got != want {
					t.Errorf("outcome = %v, want %v", got, want)
				}
				if got, want := end.Rounds, test.rounds; got != want {
					t.Errorf("rounds = %d, want %d", got, want)
				}
				if got, want := end.Err != nil, ranAndFailed(test.want); got != want {
					t.Errorf("error = %v, want one: %t", end.Err, want)
				}
				if got, most := end.Took, defaultBudget+10*time.Millisecond; got > most {
					t.Errorf("took %s, want at most %s", got, most)
				}
				balanced(t, r.Stats())
			})
		})
	}
}

func TestGoexitGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	install(t, r, 1, millrace.Job{Name: "x", Slice: func(context.Context) (millrace.Progress, error) {
		runtime.Goexit()
		return millrace.Idle, nil
	}})
	var worker sync.WaitGroup
	worker.Go(func() { r.Enlist(t.Context()) })
	worker.Wait()
	got := jobStats(t, r, "x")
	if got.Running != 0 || got.Panicked != 1 {
		t.Errorf("stats = %+v, want nothing running and 1 panic", got)
	}
}

func TestCallerWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{})
		install(t, r, 1, millrace.Job{Name: "x", Slice: func(ctx context.Context) (millrace.Progress, error) {
			<-ctx.Done()
			return millrace.Idle, ctx.Err()
		}})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		r.Enlist(over)
		if got := jobStats(t, r, "x").Recruited(); got != 0 {
			t.Errorf("recruited with an ended context: %d, want 0", got)
		}
		// Callers that go away during the slice do not open the breaker.
		for range 2 * breakAfter {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			r.Enlist(ctx)
			cancel()
		}
		if got := jobStats(t, r, "x"); got.TimedOut != 2*breakAfter || got.Aborted != got.TimedOut {
			t.Errorf("stats = %+v, want %d aborts, all of them timeouts", got, 2*breakAfter)
		}
	})
}

// So many slices at once and no more (W10 in docs/DEFECTS.md).
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Budget: time.Hour})
		end := make(chan struct{})
		wait := func(context.Context) (millrace.Progress, error) { <-end; return millrace.Worked, nil }
		for _, name := range []string{"a", "b", "c"} {
			install(t, r, 0.25, millrace.Job{Name: name, Slice: wait})
		}
		enlist := func(u float64) {
			r.random = drawing(u)
			go r.Enlist(t.Context())
			synctest.Wait()
		}
		enlist(0)    // a takes its slot
		enlist(0)    // which is the only one of a
		enlist(0.25) // b takes the process' last
		enlist(0.5)  // c finds none
		close(end)
		synctest.Wait()
		enlist(0)
		var got []string
		for _, s := range r.Stats().Jobs {
			got = append(got, strings.Repeat("worked ", int(s.Worked))+strings.Repeat("busy ", int(s.Busy)))
		}
		if diff := cmp.Diff([]string{"worked worked busy ", "worked ", "busy "}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

func TestUpkeepDoesNotRecruit(t *testing.T) {
	t.Parallel()
	r := New(Config{PerJob: 9, PerProcess: 9})
	install(t, r, 1, millrace.Job{Name: "x", Slice: func(ctx context.Context) (millrace.Progress, error) {
		r.Enlist(ctx)
		r.Enlist(context.WithoutCancel(ctx))
		return millrace.Worked, nil
	}})
	r.Enlist(t.Context())
	if got, want := jobStats(t, r, "x").Recruited(), int64(1); got != want {
		t.Errorf("recruited = %d, want %d", got, want)
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var tries []time.Duration
		heal := false
		r := New(Config{})
		install(t, r, 1, millrace.Job{Name: "x", Slice: func(context.Context) (millrace.Progress, error) {
			tries = append(tries, time.Since(began)/time.Second*time.Second)
			if heal {
				return millrace.Idle, nil
			}
			return millrace.Idle, errTrouble
		}})
		enlistFor := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				r.Enlist(t.Context())
			}
		}
		enlistFor(100 * time.Second)
		var want []time.Duration
		for _, s := range []int{0, 0, 0, 0, 0, 1, 3, 7, 15, 31, 61, 91} {
			want = append(want, time.Duration(s)*time.Second)
		}
		// The pauses begin within the first second, after the fifth failure.
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("slices ran at (-want +got):\n%s", diff)
		}
		heal, tries = true, nil
		enlistFor(30 * time.Second)
		heal, tries = false, nil
		enlistFor(time.Second)
		if got, want := len(tries), breakAfter; got != want {
			t.Errorf("slices before the breaker opened again = %d, want %d", got, want)
		}
		s := r.Stats()
		balanced(t, s)
		if s.Jobs[0].Broken == 0 {
			t.Error("no recruit was counted as aborted by the breaker")
		}
	})
}

// The trace goes to the log and not to the response (W10 in docs/DEFECTS.md).
func TestFailuresAreLoggedOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		panics := true
		install(t, r, 1, millrace.Job{Name: "x", Slice: func(context.Context) (millrace.Progress, error) {
			if panics = !panics; panics {
				panic("at the mill")
			}
			return millrace.Idle, errTrouble
		}})
		for range 4 { // fewer than open the breaker
			r.Enlist(t.Context())
		}
		time.Sleep(reportEvery)
		r.Enlist(t.Context())
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		want := [][]string{
			{"job=x", "reason=error", "error=trouble", "unreported=0"},
			{"job=x", "reason=panic", "at the mill", "unreported=0", "recruit_test.go"},
			{"job=x", "reason=error", "error=trouble", "unreported=1"},
		}
		if len(lines) != len(want) {
			t.Fatalf("log lines = %d, want %d:\n%s", len(lines), len(want), log.String())
		}
		for i, words := range want {
			for _, word := range words {
				if !strings.Contains(lines[i], word) {
					t.Errorf("line %d lacks %q: %s", i+1, word, lines[i])
				}
			}
		}
	})
}

// The outcomes of recruits can be counted (W10 in docs/DEFECTS.md).
func TestEveryRecruitHasOneOutcome(t *testing.T) {
	t.Parallel()
	r := New(Config{PerJob: 2, PerProcess: 3, Budget: time.Millisecond})
	for _, name := range []string{"a", "b", "c"} {
		var n atomic.Int64 // the first slice works, and so does one after each that fails
		install(t, r, 0.3, millrace.Job{Name: name, Slice: func(ctx context.Context) (millrace.Progress, error) {
			switch n.Add(1) % 11 {
			case 2:
				panic("at the mill")
			case 4, 6:
				return millrace.Idle, errTrouble
			case 8:
				<-ctx.Done()
				return millrace.Idle, ctx.Err()
			case 10:
				return millrace.More, nil
			default:
				runtime.Gosched()
				return millrace.Worked, nil
			}
		}})
	}
	stop := make(chan struct{})
	var watcher, workers sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				balanced(t, r.Stats())
				runtime.Gosched()
			}
		}
	})
	for range 8 {
		workers.Go(func() {
			for range 2000 {
				r.Enlist(t.Context())
			}
		})
	}
	workers.Wait()
	close(stop)
	watcher.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := r.Stats()
	balanced(t, s)
	for _, j := range s.Jobs {
		if j.Running != 0 || j.Worked == 0 {
			t.Errorf("job %s: %+v, want nothing running and some that worked", j.Name, j)
		}
	}
}
