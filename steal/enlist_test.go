package steal

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/millrace/millrace"
)

// TestEveryJobGetsItsShare counts the runs of jobs with several rates in a million enlistments.
func TestEveryJobGetsItsShare(t *testing.T) {
	t.Parallel()
	const enlistments = 1_000_000
	rates := map[string]float64{"twentieth": 0.05, "hundredth": 0.01, "never": 0, "thousandth": 0.001, "usual": 0.003}
	r := New(Config{})
	r.random = seeded(1)
	for name, rate := range rates {
		install(t, r, rate, answers(name, millrace.Worked, nil))
	}
	for range enlistments {
		r.Enlist(t.Context())
	}
	s := r.Stats()
	balanced(t, s)
	if got := float64(s.Enlisted); math.Abs(got/enlistments-1) > 0.04 {
		t.Errorf("enlisted = %.0f, want about %d", got, enlistments)
	}
	for _, j := range s.Jobs {
		mean := enlistments * rates[j.Name]
		deviation := math.Sqrt(mean * (1 - rates[j.Name]))
		if off := math.Abs(float64(j.Worked) - mean); off > 4*deviation {
			t.Errorf("job %s worked %d times, want %.0f +- %.0f", j.Name, j.Worked, mean, 4*deviation)
		}
	}
}

// A job of rate 0 is never drawn, and no number is left over (W8 in
// docs/DEFECTS.md).
func TestDrawIsHalfOpen(t *testing.T) {
	t.Parallel()
	const step = 1.0 / (1 << 53)
	tests := []struct {
		name  string
		rates []float64
		u     float64
		want  int // index of the job that is drawn; -1 for none
	}{
		{"rate 0 at u 0", []float64{0}, 0, -1},
		{"rate 0 first, at u 0", []float64{0, 0.5}, 0, 1},
		{"below the bound", []float64{0.25, 0.25}, 0.25 - step, 0},
		{"at the bound", []float64{0.25, 0.25}, 0.25, 1},
		{"rate 0 between, below the bound", []float64{0.25, 0, 0.25}, 0.25 - step, 0},
		{"rate 0 between, at the bound", []float64{0.25, 0, 0.25}, 0.25, 2},
		{"below the last bound", []float64{0.25, 0.25}, 0.5 - step, 1},
		{"at the last bound", []float64{0.25, 0.25}, 0.5, -1},
		{"rate 0 last, at the last bound", []float64{0.5, 0}, 0.5, -1},
		{"rate 1 at the largest u", []float64{1}, 1 - step, 0},
		{"no job at u 0", nil, 0, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := New(Config{})
			for i, rate := range test.rates {
				install(t, r, rate, answers(string(rune('a'+i)), millrace.Worked, nil))
			}
			r.random = drawing(test.u)
			r.Enlist(t.Context())
			got := -1
			for i, j := range r.Stats().Jobs {
				if j.Drawn > 0 {
					got = i
				}
			}
			if got != test.want {
				t.Errorf("u = %v drew job %d, want %d", test.u, got, test.want)
			}
		})
	}
}

// TestAMomentIsOneDraw: nothing is drawn again, not even for a slice that failed.
func TestAMomentIsOneDraw(t *testing.T) {
	t.Parallel()
	r := New(Config{PerJob: 3, PerProcess: 3})
	install(t, r, 1, answers("x", millrace.Idle, errTrouble))
	draws := 0
	r.random = func() uint64 { draws++; return 0 }
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, offer := range map[string]func(){
		"Enlist": func() { r.Enlist(t.Context()) },
		"a request": func() {
			Middleware(r)(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				for range 1000 {
					r.Enlist(req.Context())
				}
			})).ServeHTTP(httptest.NewRecorder(), request)
		},
	} {
		draws = 0
		if offer(); draws != 1 {
			t.Errorf("%s draws %d times, want once", name, draws)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := jobStats(t, r, "x"); got.Rounds != 2 || got.Failed != 2 {
		t.Errorf("stats = %+v, want each of 2 moments to run one slice", got)
	}
}

// A rate that is no chance is refused (W9 in docs/DEFECTS.md).
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		job  millrace.Job
		rate float64
		want *millrace.Error
	}{
		{"no name", answers("", millrace.Idle, nil), 0, millrace.ErrBadArgument},
		{"no slice", millrace.Job{Name: "x"}, 0, millrace.ErrBadArgument},
		{"negative", answers("x", millrace.Idle, nil), -0.1, millrace.ErrBadArgument},
		{"not a number", answers("x", millrace.Idle, nil), math.NaN(), millrace.ErrBadArgument},
		{"infinite", answers("x", millrace.Idle, nil), math.Inf(1), millrace.ErrBadArgument},
		{"above 1", answers("x", millrace.Idle, nil), 1.1, millrace.ErrBadArgument},
		{"above 1 together", answers("x", millrace.Idle, nil), 0.31, millrace.ErrBadArgument},
		{"the same name", answers("first", millrace.Idle, nil), 0, millrace.ErrBadArgument},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := New(Config{})
			install(t, r, 0.7, answers("first", millrace.Idle, nil))
			err := r.Install(test.job, test.rate)
			if !errors.Is(err, test.want) {
				t.Errorf("error = %v, want one of code %s", err, test.want.Code)
			}
			if millrace.Hint(err) == "" {
				t.Errorf("%v: has no hint", err)
			}
			if got, want := len(r.Stats().Jobs), 1; got != want {
				t.Errorf("jobs = %d, want %d", got, want)
			}
		})
	}
}

// Rates that sum up to 1 are not refused for binary rounding (W9 in
// docs/DEFECTS.md): twenty times 0.05 is more than 1.
func TestRatesMayBeRoundedBeyond1(t *testing.T) {
	t.Parallel()
	for n, rate := range map[int]float64{20: 0.05, 10: 0.1 + 1e-11} {
		r := New(Config{})
		for i := range n {
			install(t, r, rate, answers(string(rune('a'+i)), millrace.Idle, nil))
		}
		if total := r.table.Load().total; total <= 1 {
			t.Errorf("%d times %v = %v, want more than 1, or this shows nothing", n, rate, total)
		}
	}
}

func TestInstallDuringTraffic(t *testing.T) {
	t.Parallel()
	r := New(Config{PerProcess: 1000})
	r.Enlist(t.Context()) // no job yet
	stop := make(chan struct{})
	var traffic sync.WaitGroup
	for range 4 {
		traffic.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.Enlist(t.Context())
				}
			}
		})
	}
	for i := range 100 {
		install(t, r, 0.01, answers(string(rune('A'+i)), millrace.Worked, nil))
		balanced(t, r.Stats())
	}
	close(stop)
	traffic.Wait()
	if got, want := len(r.Stats().Jobs), 100; got != want {
		t.Errorf("jobs = %d, want %d", got, want)
	}
}

func TestDismissedEnlistAllocatesNothing(t *testing.T) {
	r := New(Config{})
	install(t, r, 0, answers("x", millrace.Worked, nil))
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() { r.Enlist(ctx) }); got != 0 {
		t.Errorf("allocations = %v, want 0", got)
	}
}

func benchmarkRecruiter(b *testing.B) *Recruiter {
	r := New(Config{})
	for _, name := range []string{"a", "b", "c"} {
		install(b, r, 0, answers(name, millrace.Worked, nil))
	}
	return r
}

func BenchmarkEnlistDismissed(b *testing.B) {
	r, ctx := benchmarkRecruiter(b), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		r.Enlist(ctx)
	}
}

func BenchmarkEnlistDismissedParallel(b *testing.B) {
	r := benchmarkRecruiter(b)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		ctx := context.Background()
		for p.Next() {
			r.Enlist(ctx)
		}
	})
}

// A request's context lies some values deep.
func BenchmarkEnlistDismissedDeep(b *testing.B) {
	type key int
	r, ctx := benchmarkRecruiter(b), context.Background()
	for i := range 5 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Enlist(ctx)
	}
}

func BenchmarkRecruit(b *testing.B) {
	r, ctx := New(Config{}), context.Background()
	install(b, r, 1, answers("x", millrace.Worked, nil))
	b.ReportAllocs()
	for b.Loop() {
		r.Enlist(ctx)
	}
}
