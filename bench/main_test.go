package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// tries is how often a figure may fail: one with a time limit can miss it on a busy
// machine, and a broken one fails each time.
const tries = 3

// alike are figures of which another one runs the same code, more quickly.
var alike = regexp.MustCompile(`after [2-9] doublings|fleet heap|fleet of (1|16),|backlog, .*, a replica`)

// TestEverySideRuns keeps the benchmarks from rotting. It measures nothing, and leaves
// out the figures that package internal/bench tests.
func TestEverySideRuns(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	t.Cleanup(func() {
		if err := bench.StopFleets(); err != nil {
			t.Error(err)
		}
	})
	for i, f := range figures("") {
		if last := f.Sides[len(f.Sides)-1]; f.Name != "" && !strings.HasPrefix(last.Name, "asynq") || alike.MatchString(f.What) {
			continue
		}
		t.Run(f.What, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			client := server.Client(t)
			b := bench.B{
				Client: client, Name: "bench", Time: 10 * time.Millisecond,
				Open: func() (rueidis.Client, error) { return dial.Redis(context.Background(), server.URL()) },
			}
			runs(t, figures(server.URL())[i], b)
			if left, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice(); err != nil || len(left) > 0 {
				t.Errorf("keys are left: %q (%v)", left, err)
			}
		})
	}
}

// runs fails the test unless each side of a figure has a value.
func runs(t *testing.T, f bench.Figure, b bench.B) {
	t.Helper()
	r, err := f.Compare(t.Context(), b, 1, func(int, string) {})
	for again := 1; err != nil && again < tries; again++ {
		t.Logf("try %d: %v", again, err)
		r, err = f.Compare(t.Context(), b, 1, func(int, string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	values := []float64{r.Value}
	for _, a := range r.Against {
		values = append(values, a.Value)
	}
	for i, value := range values {
		if value <= 0 {
			t.Errorf("%s: %v %s, want more", f.Sides[i].Name, value, r.Unit)
		}
	}
}
