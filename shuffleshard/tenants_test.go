package shuffleshard

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

const tenants = 100_000

// naming is a way in which programs name tenants. The names are close to each
// other, which a weak hash shows in its results. They are the same in each
// run, so the tests below pass always or never.
type naming struct {
	name string
	of   func(i int) string
}

var namings = []naming{
	{"words", words},
	{"addresses", func(i int) string { return fmt.Sprintf("%d@example.com", i) }},
	{"integers", func(i int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(i))) }},
}

func words(i int) string { return fmt.Sprintf("tenant-%d", i) }

// inEach runs a test for each way of naming tenants.
func inEach(t *testing.T, test func(*testing.T, func(i int) string)) {
	for _, n := range namings {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			test(t, n.of)
		})
	}
}

// wantAbout fails the test if a count of independent events is further from its
// mean than four standard deviations.
func wantAbout(t *testing.T, what string, got int, of int, p float64) {
	t.Helper()
	want := float64(of) * p
	if bound := 4*math.Sqrt(want*(1-p)) + 4; math.Abs(float64(got)-want) > bound {
		t.Errorf("%s: %d of %d, want %.0f, and at most %.0f from it", what, got, of, want, bound)
	}
}

// TestResizeMovesTheLeast counts the changes when a small number of items grows to a
// large one, and shrinks back: the shards, and their members. A shard
// changes by one member at most for each item added or removed, and as often as
// theory says.
func TestResizeMovesTheLeast(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ small, large int }{{64, 65}, {12, 16}, {16, 32}} {
		const count = 4
		t.Run(fmt.Sprintf("%d and %d", tc.small, tc.large), func(t *testing.T) {
			t.Parallel()
			changed, moved := 0, 0
			for i := range tenants {
				small, large := Get(tc.small, count, words(i)), Get(tc.large, count, words(i))
				lost := count - overlap(small, large)
				if lost > tc.large-tc.small {
					t.Fatalf("%q: %v and %v, want at most %d other members", words(i), small, large, tc.large-tc.small)
				}
				if lost > 0 {
					changed++
				} else if !slices.Equal(small, large) {
					t.Fatalf("%q: %v and %v, want the same order", words(i), small, large)
				}
				moved += lost
			}
			// A shard stays if none of its members in the large number is
			// beyond the small one.
			stays := 1.0
			for i := range count {
				stays *= float64(tc.small-i) / float64(tc.large-i)
			}
			wantAbout(t, "changed shards", changed, tenants, 1-stays)
			wantAbout(t, "moved members", moved, tenants*count, 1-float64(tc.small)/float64(tc.large))
		})
	}
}

// TestEveryItemHasTheSameLoad compares how often each item is in a shard, and how
// often it comes first, with the mean: the sum of the squared deviations is
// distributed like chi square.
func TestEveryItemHasTheSameLoad(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ items, count int }{{16, 2}, {64, 4}} {
		t.Run(fmt.Sprintf("%d of %d", size.count, size.items), func(t *testing.T) {
			t.Parallel()
			inEach(t, func(t *testing.T, name func(int) string) {
				members, firsts := make([]int, size.items), make([]int, size.items)
				for i := range tenants {
					shard := Get(size.items, size.count, name(i))
					firsts[shard[0]]++
					for _, member := range shard {
						members[member]++
					}
				}
				wantEven(t, "members of shards", members, size.count)
				wantEven(t, "first members", firsts, 1)
			})
		})
	}
}

// wantEven fails the test if the items' loads, which are the result of drawing
// count different items for each tenant, are further apart than chance explains.
func wantEven(t *testing.T, what string, loads []int, count int) {
	t.Helper()
	items := float64(len(loads))
	mean := tenants * float64(count) / items
	square := 0.0
	for _, load := range loads {
		square += math.Pow(float64(load)-mean, 2) / mean
	}
	square *= (items - 1) / (items - float64(count)) // the items of a tenant are not independent
	freedom := items - 1
	if bound := freedom + 4*math.Sqrt(2*freedom); square > bound {
		t.Errorf("%s: chi square = %.1f, want at most %.1f: %v", what, square, bound, loads)
	}
}

// TestShardsOverlapAsCollisionSays compares the shards of tenants whose names are
// neighbours, and of random pairs.
func TestShardsOverlapAsCollisionSays(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ items, count int }{{16, 2}, {64, 4}} {
		t.Run(fmt.Sprintf("%d of %d", size.count, size.items), func(t *testing.T) {
			t.Parallel()
			inEach(t, func(t *testing.T, name func(int) string) {
				shards := make([][]int, tenants+1)
				for i := range shards {
					shards[i] = Get(size.items, size.count, name(i))
				}
				random := rand.New(rand.NewPCG(1, 2))
				neighbours, pairs := make([]int, size.count+1), make([]int, size.count+1)
				for i := range tenants {
					neighbours[overlap(shards[i], shards[i+1])]++
					other := (i + 1 + random.IntN(tenants)) % len(shards)
					pairs[overlap(shards[i], shards[other])]++
				}
				for shared, p := range Collision(size.items, size.count) {
					wantAbout(t, fmt.Sprintf("neighbours that share %d", shared), neighbours[shared], tenants, p)
					wantAbout(t, fmt.Sprintf("pairs that share %d", shared), pairs[shared], tenants, p)
				}
			})
		})
	}
}

// TestNoisyNeighbours holds the documentation to its figures: how often one or
// more of 60 quiet tenants collide fully with a noisy one, and how often ten noisy
// ones together leave a quiet one no free item.
func TestNoisyNeighbours(t *testing.T) {
	t.Parallel()
	full := Collision(16, 2)[2]
	const quiet = 60
	groups, hit := tenants/(quiet+1), 0
	for g := range groups {
		first := g * (quiet + 1)
		noisy := Get(16, 2, words(first))
		for i := range quiet {
			if overlap(noisy, Get(16, 2, words(first+1+i))) == 2 {
				hit++
				break
			}
		}
	}
	wantAbout(t, "one of 60 has 2 of 16 like the noisy one", hit, groups, -math.Expm1(quiet*math.Log1p(-full)))

	const noisy = 10
	groups, hit = tenants/(noisy+1), 0
	for g := range groups {
		first := g * (noisy + 1)
		var flooded []int
		for i := range noisy {
			flooded = append(flooded, Get(64, 4, words(first+1+i))...)
		}
		if overlap(Get(64, 4, words(first)), flooded) == 4 {
			hit++
		}
	}
	wantAbout(t, "ten leave none of 4 of 64", hit, groups, 0.047)
}

// overlap returns how many members of a shard are among the items.
func overlap(shard, items []int) int {
	n := 0
	for _, member := range shard {
		if slices.Contains(items, member) {
			n++
		}
	}
	return n
}
