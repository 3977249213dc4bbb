package steal

import (
	"context"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace/millrace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers returns a job whose slices always find the same.
func answers(name string, progress millrace.Progress, err error) millrace.Job {
	return millrace.Job{Name: name, Slice: func(context.Context) (millrace.Progress, error) { return progress, err }}
}

// install installs jobs at the same rate.
func install(t testing.TB, r *Recruiter, rate float64, jobs ...millrace.Job) {
	t.Helper()
	for _, j := range jobs {
		if err := r.Install(j, rate); err != nil {
			t.Fatal(err)
		}
	}
}

// seeded returns a source of random numbers that repeats from run to run.
func seeded(seed uint64) func() uint64 { return rand.New(rand.NewPCG(seed, 1)).Uint64 }

// drawing returns a source that always draws u, a multiple of 2^-53.
func drawing(u float64) func() uint64 {
	return func() uint64 { return uint64(u*(1<<53)) << 11 }
}

// jobStats returns the outcomes of the recruits of the job of that name.
func jobStats(t testing.TB, r *Recruiter, name string) JobStats {
	t.Helper()
	for _, s := range r.Stats().Jobs {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no job %q", name)
	return JobStats{}
}

// balanced checks that every recruit has exactly one outcome.
func balanced(t testing.TB, s Stats) {
	t.Helper()
	for _, j := range s.Jobs {
		if got, want := j.Worked+j.Idle+j.Aborted, j.Drawn+j.Floored; got != want {
			t.Errorf("job %s: worked + idle + aborted = %d, want %d: %+v", j.Name, got, want, j)
		}
	}
}

// recorder is a hook that keeps its calls. It is for one goroutine.
type recorder struct{ ends []millrace.Recruited }

func (h *recorder) OnRecruit(_ context.Context, end millrace.Recruited) { h.ends = append(h.ends, end) }
