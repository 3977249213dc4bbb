package main

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

// TestEverySideRuns keeps the benchmarks from rotting. It measures nothing.
func TestEverySideRuns(t *testing.T) {
	redistest.Binary(t)
	client, _, closeAll, err := open(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	for _, r := range ickRows() {
		speeds, err := measure(t.Context(), setup{client: client, time: 10 * time.Millisecond}, r, 1)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		for i, speed := range speeds {
			if speed[0] <= 0 {
				t.Errorf("%s, %s: speed = %v, want more than nothing", r.name, r.sides[i].name, speed[0])
			}
		}
	}
}
