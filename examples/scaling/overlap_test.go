package main

import (
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/shuffleshard"
)

func TestOneThatFloodsIsACollision(t *testing.T) {
	t.Parallel()
	for _, s := range append(shapes, shape{5, 5}, shape{7, 6}) {
		want := shuffleshard.Collision(s.streams, s.perTenant)
		for shared, got := range s.flooded(1) {
			if math.Abs(got-want[shared]) > 1e-9*want[shared] {
				t.Errorf("%v: %d streams are flooded with the chance %g, want %g", s, shared, got, want[shared])
			}
		}
	}
}

// TestFloodedCountsAllHands compares the formula with all cases of a queue of five
// streams, of which a tenant and three others have two each.
func TestFloodedCountsAllHands(t *testing.T) {
	t.Parallel()
	var hands [][]int
	for a := range 5 {
		for b := range a {
			hands = append(hands, []int{a, b})
		}
	}
	counts, all := make([]float64, 3), 0.0
	for _, x := range hands {
		for _, y := range hands {
			for _, z := range hands {
				hit := 0
				for _, mine := range []int{0, 1} { // whichever two streams, by symmetry
					if slices.Contains(slices.Concat(x, y, z), mine) {
						hit++
					}
				}
				counts[hit]++
				all++
			}
		}
	}
	for hit, got := range (shape{5, 2}).flooded(3) {
		if want := counts[hit] / all; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d streams are flooded with the chance %v, want %v", hit, got, want)
		}
	}
}

// TestTownsFollowTheFormula compares the shards of many tenants with the formula. The
// number of tenants that are hit depends above all on which tenants flood, so it compares
// the mean of many draws, and the bound is four standard deviations of that mean.
func TestTownsFollowTheFormula(t *testing.T) {
	t.Parallel()
	const tenants, repeats = 2000, 30
	for _, tc := range []struct {
		shape  shape
		others int
	}{{shape{16, 2}, 1}, {shape{16, 2}, 10}, {shape{64, 4}, 10}, {shape{256, 4}, 100}} {
		town := newTown(tc.shape, tenants)
		want := tc.shape.flooded(tc.others)[tc.shape.perTenant]
		var sum, squares float64
		for repeat := range repeats {
			share := town.count(tc.others, repeat*draws).mean[tc.shape.perTenant] / tenants
			sum, squares = sum+share, squares+share*share
		}
		got := sum / repeats
		deviation := math.Sqrt(max(0, squares/repeats-got*got) / repeats)
		if math.Abs(got-want) > 4*deviation {
			t.Errorf("%v with %d that flood: a share of %.4f has no free stream, want %.4f, and at most %.4f from it", tc.shape, tc.others, got, want, 4*deviation)
		}
		if deviation > want/20 {
			t.Errorf("%v with %d that flood: the bound of %.4f is too wide to find anything", tc.shape, tc.others, 4*deviation)
		}
	}
}
