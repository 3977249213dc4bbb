package survey

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// story is a prober of which a test says how long it takes, and which remembers when
// it was asked, in seconds since the start.
type story struct {
	mu       sync.Mutex
	start    time.Time
	finding  time.Duration
	looking  time.Duration
	away     error
	unnamed  error
	finds    []float64
	looks    []float64
	givenUp  int
	together atomic.Int32
	overlaps atomic.Int32
}

func newStory() *story { return &story{start: time.Now()} }

func (s *story) change(change func(*story)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *story) list(ctx context.Context) (names, error) {
	s.mu.Lock()
	s.finds = append(s.finds, time.Since(s.start).Seconds())
	takes, err := s.finding, s.unnamed
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		s.change(func(s *story) { s.givenUp++ })
		return names{}, context.Cause(ctx)
	}
	return names{at: time.Now(), of: map[Kind][]string{Queue: {"a"}}, leftOut: map[Kind]int{Lease: 7}}, err
}

func (s *story) read(ctx context.Context, known names, last *View) *View {
	if s.together.Add(1) > 1 {
		s.overlaps.Add(1)
	}
	defer s.together.Add(-1)
	s.mu.Lock()
	s.looks = append(s.looks, time.Since(s.start).Seconds())
	takes, away, number := s.looking, s.away, len(s.looks)
	s.mu.Unlock()
	v := &View{At: time.Now()}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	if away != nil {
		return last.late(nil, Trouble{Kind: Server, Err: away})
	}
	for _, name := range known.of[Queue] {
		v.Queues = append(v.Queues, fairqueue.Stats{Name: name, Waiting: number})
	}
	return v
}

// wantTimes forgets the recorded times, and fails the test unless they are as wanted.
func (s *story) wantTimes(t *testing.T, what string, times *[]float64, want ...float64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, *times); diff != "" {
		t.Errorf("%s, at second %v (-want +got):\n%s", what, time.Since(s.start).Seconds(), diff)
	}
	*times = nil
}

// run runs a survey in a bubble until the test ends.
func run(t *testing.T, s *Survey) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	})
	synctest.Wait()
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d) // in the bubble it takes no time
	synctest.Wait()
}

var discard = slog.New(slog.DiscardHandler)

// TestPace: a look is due each 5 s, and each second while a client watches.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		s := newSurvey(prober, discard)
		if v := s.View(); v == nil || !v.At.IsZero() || v.Away() != nil {
			t.Errorf("the View before the first look = %+v", v)
		}
		run(t, s)
		pass(11 * time.Second)
		prober.wantTimes(t, "looks", &prober.looks, 0, 5, 10)

		var watching sync.WaitGroup
		watch := func(d time.Duration) {
			watching.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				for range s.Watch(ctx) {
				}
			})
		}
		watch(3500 * time.Millisecond)
		watch(1200 * time.Millisecond)
		pass(10 * time.Second) // until 21
		prober.wantTimes(t, "looks while somebody watches, and after", &prober.looks, 11, 12, 13, 14, 19)
		watching.Wait()
		watch(time.Minute) // 2 s after a look: the next one is due at once
		pass(1500 * time.Millisecond)
		prober.wantTimes(t, "looks when one comes again", &prober.looks, 21, 22)
		watching.Wait()
	})
}

// TestSlowLooks: a Redis that is slow is asked for half of the time at most, and
// never twice at the same time.
func TestSlowLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		prober.looking = 4 * time.Second
		s := newSurvey(prober, discard)
		run(t, s)
		pass(20 * time.Second)
		// After the first one the pace begins anew.
		prober.wantTimes(t, "looks", &prober.looks, 0, 9, 17)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range s.Watch(ctx) {
			break
		}
		pass(20 * time.Second)
		prober.wantTimes(t, "looks", &prober.looks, 25, 33)
		if got := prober.overlaps.Load(); got != 0 {
			t.Errorf("%d looks overlapped", got)
		}
	})
}

// TestRefresh: several callers of Refresh at the same time share one look, which begins after
// their calls.
func TestRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		prober.looking = 500 * time.Millisecond
		s := newSurvey(prober, discard)
		run(t, s)
		pass(5*time.Second + 600*time.Millisecond) // a look is under way
		var refreshing sync.WaitGroup
		for range 5 {
			refreshing.Go(func() {
				asked := time.Now()
				v, err := s.Refresh(t.Context())
				if err != nil || v.At.Before(asked) {
					t.Errorf("Refresh = a View from %s before, %v", asked.Sub(v.At), err)
				}
			})
		}
		refreshing.Wait()
		prober.wantTimes(t, "looks", &prober.looks, 0, 5.5, 6)
		prober.wantTimes(t, "findings", &prober.finds, 0, 5.6)
		if got := prober.overlaps.Load(); got != 0 {
			t.Errorf("%d looks overlapped", got)
		}
	})
}

// TestPoll: a program that polls chooses when to look, and names are found without Run.
func TestPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		s := newSurvey(prober, discard)
		ctx, cancel := context.WithCancel(t.Context())
		var listing sync.WaitGroup
		listing.Go(func() { s.KeepListing(ctx) })
		for range 4 {
			pass(10 * time.Second)
			if v, err := s.Poll(ctx); err != nil || !v.At.Equal(time.Now()) {
				t.Errorf("Poll = a View of %v, %v", v.At, err)
			}
		}
		cancel()
		listing.Wait()
		prober.wantTimes(t, "looks", &prober.looks, 10, 20, 30, 40)
		prober.wantTimes(t, "findings", &prober.finds, 0, 10, 20, 30, 40)
	})
}

// TestRefreshIsCancelled: a cancelled Refresh does not leave an empty View behind.
func TestRefreshIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		prober.looking = time.Second
		s := newSurvey(prober, discard)
		before, err := s.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		v, err := s.Refresh(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || v != before || s.View() != before {
			t.Errorf("Refresh = %p, %v; want the View of before, %p", v, err, before)
		}
		if got, want := time.Since(began), 500*time.Millisecond; got != want {
			t.Errorf("Refresh took %s, want %s", got, want)
		}
	})
}

// TestFindingIsSeldom: names are found for 2% of the time, each ten seconds at most.
func TestFindingIsSeldom(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration][]float64{
		0:                      {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100},
		900 * time.Millisecond: {0, 45.9, 91.8},
	} {
		t.Run(takes.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				prober := newStory()
				prober.finding = takes
				s := newSurvey(prober, discard)
				run(t, s)
				pass(100 * time.Second)
				prober.mu.Lock()
				defer prober.mu.Unlock()
				for i, at := range want {
					if got := prober.finds; len(got) != len(want) || got[i] < at || got[i] > at+2 {
						t.Fatalf("findings at %v, want up to 2 s after %v", got, want)
					}
				}
			})
		})
	}
}

// TestSlowFinding: where finding names takes long, neither looks nor callers of Refresh wait
// for it.
func TestSlowFinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		prober.finding = 10 * time.Second
		s := newSurvey(prober, discard)
		run(t, s)
		pass(2 * time.Second)
		prober.wantTimes(t, "findings: one that was given up, and one to the end", &prober.finds, 0, 1)
		if v := s.View(); v.At.IsZero() || !v.Named.IsZero() || len(v.Troubles) > 0 {
			t.Errorf("the View without names = %+v", v)
		}
		pass(15 * time.Second) // until 17
		v := s.View()
		if got := v.Named.Sub(prober.start); got != 11*time.Second {
			t.Errorf("names were found after %s", got)
		}
		if got, want := fmt.Sprintf("%s %v", v.Queues[0].Name, v.LeftOut), "a map[lease:7]"; got != want {
			t.Errorf("the View has %s, want %s", got, want)
		}
		began := time.Now()
		if _, err := s.Refresh(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("Refresh took %s: %v", time.Since(began), err)
		}
		prober.wantTimes(t, "looks", &prober.looks, 1, 6, 11, 16, 17)
		pass(10 * time.Minute)
		if got, want := len(prober.finds), 1; got != want {
			t.Errorf("%d findings in ten minutes, want %d: %v", got, want, prober.finds)
		}
	})
}

// TestUnnamed: a failure to list names is a Trouble; the known names stay.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		s := newSurvey(prober, discard)
		run(t, s)
		refused := errors.New("NOPERM")
		prober.change(func(s *story) { s.unnamed = refused })
		pass(40 * time.Second)
		v := s.View()
		if diff := cmp.Diff([]Trouble{{Kind: Names, Err: refused}}, v.Troubles, cmp.Comparer(sameError)); diff != "" {
			t.Errorf("troubles (-want +got):\n%s", diff)
		}
		if len(v.Queues) != 1 || v.Away() != nil {
			t.Errorf("the View = %+v", v)
		}
		prober.change(func(s *story) { s.unnamed = nil })
		pass(40 * time.Second)
		if v := s.View(); len(v.Troubles) > 0 {
			t.Errorf("troubles = %v", v.Troubles)
		}
	})
}

// TestNamesInPart: names of servers that do not answer at the moment stay known, new ones of
// the others are added, and the missing answers are trouble.
func TestNamesInPart(t *testing.T) {
	t.Parallel()
	before := names{of: map[Kind][]string{Queue: {"a", "b"}, Ick: {"i"}}, leftOut: map[Kind]int{Lease: 7}}
	found := names{of: map[Kind][]string{Queue: {"b", "c"}, Ick: {"j"}}, leftOut: map[Kind]int{}, partial: []Kind{Queue, Lease}}
	found.complete(before)
	want := map[Kind][]string{Queue: {"a", "b", "c"}, Ick: {"j"}, Lease: nil}
	if diff := cmp.Diff(want, found.of); diff != "" || found.leftOut[Lease] != 7 {
		t.Errorf("names (-want +got):\n%s\nand %v left out", diff, found.leftOut)
	}
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		s := newSurvey(prober, discard)
		run(t, s)
		missing := millrace.ErrPartial.Errorf("5 of 16 parts")
		prober.change(func(s *story) { s.unnamed = missing })
		pass(40 * time.Second)
		v := s.View()
		if len(v.Queues) != 1 || len(v.Troubles) != 1 || v.Troubles[0].Kind != Names || !errors.Is(v.Troubles[0].Err, millrace.ErrPartial) {
			t.Errorf("the View = %+v, want a queue, and trouble with names", v)
		}
		if time.Since(v.Named) > 40*time.Second {
			t.Errorf("names are from %v ago, want those that were told", time.Since(v.Named))
		}
	})
}

func sameError(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) }

// TestAway: while no server answers the View keeps its numbers and their time, names
// are not looked for, and are when one answers again.
func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		var log strings.Builder
		s := newSurvey(prober, slog.New(slog.NewTextHandler(&log, nil)))
		run(t, s)
		before := s.View()
		gone := errors.New("connection refused")
		prober.change(func(s *story) { s.away = gone })
		pass(51 * time.Second)
		v, err := s.Refresh(t.Context())
		if !errors.Is(err, gone) || !errors.Is(v.Away(), gone) {
			t.Errorf("Refresh = %v; Away = %v; want %v", err, v.Away(), gone)
		}
		if v == before || v.At != before.At || !cmp.Equal(v.Queues, before.Queues) {
			t.Errorf("the View = %+v, want the numbers of %+v", v, before)
		}
		pass(10 * time.Second)
		prober.wantTimes(t, "findings: the first, and that of Refresh", &prober.finds, 0, 51)
		prober.change(func(s *story) { s.away = nil })
		pass(7 * time.Second)
		if v := s.View(); v.Away() != nil || !v.At.After(before.At) {
			t.Errorf("the View = %+v, want one of now", v)
		}
		if got := len(prober.finds); got != 1 {
			t.Errorf("%d findings when it came back, want 1", got)
		}
		if got, want := strings.Count(log.String(), "level=WARN"), 1; got != want {
			t.Errorf("%d warnings, want %d:\n%s", got, want, log.String())
		}
		if got, want := strings.Count(log.String(), "level=INFO"), 1; got != want {
			t.Errorf("%d times back, want %d:\n%s", got, want, log.String())
		}
	})
}

// TestWatch: a watcher sees the latest View at once, and each new one, unless it is slow;
// watchers that come and go do not disturb others.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		prober := newStory()
		s := newSurvey(prober, discard)
		run(t, s)
		at := func(v *View) float64 { return v.At.Sub(prober.start).Seconds() }
		watch := func(d, each time.Duration) *[]float64 {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			var seen []float64
			go func() {
				defer cancel()
				for v := range s.Watch(ctx) {
					seen = append(seen, at(v))
					time.Sleep(each) // in the bubble it takes no time
				}
			}()
			return &seen
		}
		seen := map[*[]float64][]float64{}
		for range 10 {
			seen[watch(100*time.Millisecond, 0)] = []float64{0}
			seen[watch(4500*time.Millisecond, 0)] = []float64{0, 1, 2, 3, 4}
			seen[watch(6*time.Second, 2600*time.Millisecond)] = []float64{0, 2, 5}
		}
		pass(30 * time.Second)
		for got, want := range seen {
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("Views of (-want +got):\n%s", diff)
			}
		}
		if got := s.watchers; got != 0 {
			t.Errorf("%d watchers are left", got)
		}
	})
}
