package bench

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// short is how long sides run that measure nothing.
const short = 10 * time.Millisecond

// keys returns the keys that match a pattern.
func keys(t *testing.T, c rueidis.Client, pattern string) []string {
	t.Helper()
	found, err := c.Do(t.Context(), c.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	if err != nil {
		t.Fatalf("KEYS %s: %v", pattern, err)
	}
	return found
}

// wantEmpty fails the test if a server has keys.
func wantEmpty(t *testing.T, c rueidis.Client) {
	t.Helper()
	if left := keys(t, c, "*"); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
	}
}

// wantFigures fails the test unless all figures of a report are numbers that can be.
func wantFigures(t *testing.T, report Report, n int) {
	t.Helper()
	if got, want := len(report.Figures), n; got != want {
		t.Errorf("%d figures, want %d", got, want)
	}
	for _, f := range report.Figures {
		wantFigure(t, f, f.Name, f.Value)
		if len(f.Against) == 0 {
			t.Errorf("%s is against nothing", f.Name)
		}
		for _, a := range f.Against {
			wantFigure(t, f, f.Name+" against "+a.Name, a.Value)
			if a.Ratio == nil {
				t.Errorf("%s against %s has no ratio", f.Name, a.Name)
			} else {
				wantFigure(t, f, f.Name+", ratio to "+a.Name, *a.Ratio)
			}
			if (a.Reached == nil) != (a.Goal == nil) {
				t.Errorf("%s against %s: goal %v, reached %v, want both or none", f.Name, a.Name, a.Goal, a.Reached)
			}
		}
	}
}

func wantFigure(t *testing.T, f Result, what string, value float64) {
	t.Helper()
	if !(value > 0 && value < 1e12) {
		t.Errorf("%s is %v %s, which cannot be", what, value, f.Unit)
	}
}
