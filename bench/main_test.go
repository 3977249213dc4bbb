package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// tries is how often a figure may fail: what keeps limits of time can miss them on a
// busy machine, and what has rotted fails each time.
const tries = 3

// TestEverySideRuns keeps the benchmarks from rotting. It measures nothing, and leaves
// out what package cmd/millrace/bench tests.
func TestEverySideRuns(t *testing.T) {
	redistest.Binary(t)
	at, err := open(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer at.close()
	at.Time = 10 * time.Millisecond
	for _, f := range figures(at.url) {
		if last := f.Sides[len(f.Sides)-1]; f.Name != "" && !strings.HasPrefix(last.Name, "asynq") {
			continue
		}
		r, err := f.Compare(t.Context(), at.Place, 1, func(int, string) {})
		for again := 1; err != nil && again < tries; again++ {
			t.Logf("try %d: %v", again, err)
			r, err = f.Compare(t.Context(), at.Place, 1, func(int, string) {})
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
				t.Errorf("%s, %s: %v %s, want more", r.What, f.Sides[i].Name, value, r.Unit)
			}
		}
	}
	if left, err := at.Client.Do(t.Context(), at.Client.B().Keys().Pattern("*").Build()).AsStrSlice(); err != nil || len(left) > 0 {
		t.Errorf("keys are left: %q (%v)", left, err)
	}
}
