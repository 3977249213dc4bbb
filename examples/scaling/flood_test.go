package main

import (
	"slices"
	"testing"
)

// TestOnlyWhoHasNoFreeStreamWaits: behind one flood a quiet tenant waits for all of
// it if it has no other stream, and else for a few rounds.
func TestOnlyWhoHasNoFreeStreamWaits(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		for repeat := range 20 {
			last := slices.Max(positionsBehind(s, 1, repeat))
			if stuck := noneFree(s, 1, repeat); stuck && last < floodSize || !stuck && last > 2*quiet {
				t.Errorf("%v, repeat %d: the last message is read as number %d; a tenant without a free stream: %t", s, repeat, last, stuck)
			}
		}
	}
}

// TestPositionsOfTheDesign: 60 quiet tenants behind a flood of 3,000, of 64 streams
// four a tenant, are read by 70.
func TestPositionsOfTheDesign(t *testing.T) {
	t.Parallel()
	var all []int
	for repeat := range floods {
		all = append(all, positionsBehind(shape{64, 4}, 1, repeat)...)
	}
	slices.Sort(all)
	if got, want := quantile(all, 0.99), 70; got > want {
		t.Errorf("99%% of the quiet tenants are read by %d, want %d at most", got, want)
	}
	one := positionsBehind(shape{1, 1}, 1, 0)
	if got, want := one[0], floodSize+1; got != want {
		t.Errorf("in one stream the first quiet tenant is read as number %d, want %d", got, want)
	}
}
