package ring

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVectors holds the package to testdata/vectors.json, which other languages
// can read.
func TestVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Positions map[string]string
		Rings     []struct {
			Weights    []int
			Added      [][]int
			Candidates map[string][]int
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for tag, want := range vectors.Positions {
		if got := fmt.Sprintf("%016x", Position(tag)); got != want {
			t.Errorf("Position(%q) = %s, want %s", tag, got, want)
		}
	}
	for _, v := range vectors.Rings {
		r, err := New(v.Weights...)
		for _, more := range v.Added {
			if err == nil {
				r, err = r.Add(more...)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for tag, want := range v.Candidates {
			if diff := cmp.Diff(want, r.Candidates(Position(tag))); diff != "" {
				t.Errorf("weights %v, then %v: candidates of %q (-want +got):\n%s", v.Weights, v.Added, tag, diff)
			}
		}
	}
}
