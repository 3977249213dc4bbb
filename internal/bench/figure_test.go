package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fixed is a side that has these figures, round by round.
func fixed(name string, goal *Goal, values ...float64) Side {
	next := 0
	return Side{Name: name, Goal: goal, Measure: func(context.Context, *B) float64 {
		next++
		return values[next-1]
	}}
}

func compare(t *testing.T, unit string, rounds int, sides ...Side) (Result, string) {
	t.Helper()
	var told strings.Builder
	r, err := Figure{Name: "n", What: "what it is", Unit: unit, Sides: sides}.Compare(t.Context(), B{}, rounds,
		func(round int, side string) { fmt.Fprintf(&told, "%d%s ", round, side) })
	if err != nil {
		t.Fatal(err)
	}
	return r, told.String()
}

// Sides take turns, and ratios are those of a round: the machine is half as fast
// in the second.
func TestCompareTakesTurns(t *testing.T) {
	t.Parallel()
	got, told := compare(t, "x/s", 3,
		fixed("a", nil, 60, 30, 66),
		fixed("b", AtLeast(0.6), 100, 50, 100),
		fixed("c", AtMost(0.1), 300, 150, 300))
	if want := "1a 1b 1c 2a 2b 2c 3a 3b 3c "; told != want {
		t.Errorf("sides ran as %s, want %s", told, want)
	}
	ratio := func(v float64) *float64 { return &v }
	yes, no := true, false
	want := Result{Name: "n", What: "what it is", Unit: "x/s", Rounds: 3, Value: 60, Against: []Against{
		{Name: "b", Value: 100, Ratio: ratio(0.6), Goal: AtLeast(0.6), Reached: &yes},
		{Name: "c", Value: 300, Ratio: ratio(0.2), Goal: AtMost(0.1), Reached: &no},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		goal     *Goal
		value    float64
		baseline float64
		shown    string
		want     string
	}{
		{nil, 1, 2, "", ""},
		{AtLeast(0.5), 1, 2, "at least 0.5", "reached"},
		{AtLeast(0.51), 1, 2, "at least 0.51", "not reached"},
		{AtMost(0.5), 1, 2, "at most 0.5", "reached"},
		{AtMost(0.49), 1, 2, "at most 0.49", "not reached"},
		{ValueAtMost(1), 1, 2, "at most 1 ns", "reached"},
		{ValueAtMost(0.9), 1, 2, "at most 0.9 ns", "not reached"},
		{ValueAtMost(0), 0, 0, "at most 0 ns", "reached"},
		{AtLeast(1), 1, 0, "at least 1", ""}, // there is no ratio
	} {
		r, _ := compare(t, "ns", 1, fixed("a", nil, test.value), fixed("b", test.goal, test.baseline))
		a := r.Against[0]
		if got := a.ShownGoal(r.Unit); got != test.shown {
			t.Errorf("goal = %q, want %q", got, test.shown)
		}
		if got := a.verdict(); got != test.want {
			t.Errorf("%v against %v, %s: %q, want %q", test.value, test.baseline, test.shown, got, test.want)
		}
		if (a.Ratio == nil) != (test.baseline == 0) {
			t.Errorf("%v against %v: ratio %v", test.value, test.baseline, a.Ratio)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0.00", 0.0084: "0.0084", 0.365: "0.36", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234: "1.2k", 45_678: "45.7k", 1_234_567: "1.23M",
	} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) = %q, want %q", v, got, want)
		}
	}
}

func sample() Report {
	ratio, none := 0.65432, false
	return Report{
		Server: "redis://here", RoundTripUS: 41.2, CPUs: 2, Goroutines: Goroutines, DurationMS: 500,
		Figures: []Result{
			{Name: "ick_add", What: "ick add", Unit: "adds/s", Rounds: 3, Value: 45678.9, Against: []Against{
				{Name: "bare", Value: 69812.4, Ratio: &ratio, Goal: AtLeast(0.7), Reached: &none},
				{Name: "other", Value: 0},
			}},
		},
		NotMeasured: []Absent{{What: "failover", Why: "make bench"}},
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	want := `Server: redis://here, 41.2 us away
Client: 2 CPUs, 50 goroutines, 500 ms a side and round

                       figure   ratio  goal
ick add          45.7k adds/s
  against bare   69.8k           0.65  at least 0.7  not reached
  against other   0.00              -

A ratio is what was measured divided by the baseline, the median of the rounds. Rates are better
when they are larger, times and counts when they are smaller.

Not measured:
  failover: make bench
`
	var got strings.Builder
	if err := sample().Table(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	want := `{"server":"redis://here","round_trip_us":41.2,"cpus":2,"goroutines":50,"duration_ms":500,` +
		`"figures":[{"name":"ick_add","what":"ick add","unit":"adds/s","rounds":3,"value":45680,"against":[` +
		`{"name":"bare","value":69810,"ratio":0.6543,"goal":{"of":"ratio","at_least":0.7},"reached":false},` +
		`{"name":"other","value":0,"ratio":null,"goal":null,"reached":null}]}],` +
		`"not_measured":[{"name":"","what":"failover","why":"make bench"}]}`
	got, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
