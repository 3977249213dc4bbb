package main

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// tries is how often a figure may fail: one with a time limit can miss it on a busy
// machine, and a broken one fails each time.
const tries = 3

// TestEverySideRuns keeps the benchmarks from rotting. It measures nothing, and leaves
// out the figures that package internal/bench tests.
func TestEverySideRuns(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	for _, f := range figures() {
		if f.Name != "" || strings.HasPrefix(f.What, "fleet of 16") { // that of 4 runs the same code, more quickly
			continue
		}
		t.Run(f.What, func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t, redistest.Options{}).Client(t)
			runs(t, f, bench.B{Client: client, Name: "bench", Time: 10 * time.Millisecond})
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
