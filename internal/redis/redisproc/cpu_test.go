package redisproc

import (
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0-1,4-5,8": {0, 1, 4, 5, 8}, "": nil, "a-b": nil, "1-": nil, "x": nil,
	} {
		if got := parseCPUs(list); !slices.Equal(got, want) {
			t.Errorf("parseCPUs(%q) = %v, want %v", list, got, want)
		}
	}
}
