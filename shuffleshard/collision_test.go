package shuffleshard

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestCollisionIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.IntRange(1, 300).Draw(t, "items")
		count := rapid.IntRange(1, min(items, 150)).Draw(t, "count")
		if rapid.Bool().Draw(t, "nearly all") {
			count = items - rapid.IntRange(0, min(items-1, 150)).Draw(t, "left out")
		}
		got := Collision(items, count)
		if len(got) != count+1 {
			t.Fatalf("Collision(%d, %d) has %d elements, want %d", items, count, len(got), count+1)
		}
		for shared := range got {
			want := hypergeometric(items, count, shared)
			if math.Abs(got[shared]-want) > 1e-12*want+math.SmallestNonzeroFloat64*100 {
				t.Fatalf("Collision(%d, %d)[%d] = %g, want %g", items, count, shared, got[shared], want)
			}
		}
	})
}

// TestCollisionOfManyItems is about sizes at which a binomial fits no float.
func TestCollisionOfManyItems(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ items, count int }{{1_000_000, 4}, {100_000, 50_000}, {math.MaxInt, 3}} {
		sum, mean := 0.0, 0.0
		for shared, p := range Collision(size.items, size.count) {
			sum += p
			mean += p * float64(shared)
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("Collision(%d, %d) sums to %v, want 1", size.items, size.count, sum)
		}
		want := float64(size.count) / float64(size.items) * float64(size.count)
		if math.Abs(mean-want) > 1e-9*want {
			t.Errorf("Collision(%d, %d) has mean %v, want %v", size.items, size.count, mean, want)
		}
	}
}

// hypergeometric is the probability that of count items drawn at random, shared
// are among count given ones, by the definition.
func hypergeometric(items, count, shared int) float64 {
	choose := func(n, k int) *big.Int {
		if k > n {
			return new(big.Int)
		}
		return new(big.Int).Binomial(int64(n), int64(k))
	}
	favourable := new(big.Int).Mul(choose(count, shared), choose(items-count, count-shared))
	p, _ := new(big.Rat).SetFrac(favourable, choose(items, count)).Float64()
	return p
}
