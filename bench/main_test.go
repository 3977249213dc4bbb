package main

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestEverySideRuns keeps the benchmarks from rotting. It measures nothing.
func TestEverySideRuns(t *testing.T) {
	redistest.Binary(t)
	s, _, closeAll, err := open(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	s.time = 10 * time.Millisecond
	for _, r := range rows() {
		figures, err := measure(t.Context(), s, r, 1)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		for i, figure := range figures {
			if none := figure[0] <= 0; none != (r.unit == allocations) {
				t.Errorf("%s, %s: %v %s, want allocations alone to be none", r.name, r.sides[i].name, figure[0], r.unit)
			}
		}
	}
}
