package ring

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// users is how many tags stand for the users of a service.
const users = 250_000

// grown returns a ring of n partitions after these many more were added, at once
// for each number.
func grown(t testing.TB, n int, more ...int) *Ring {
	t.Helper()
	r, err := New(slices.Repeat([]int{1}, n)...)
	for _, k := range more {
		if err == nil {
			r, err = r.Add(slices.Repeat([]int{1}, k)...)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		ring     *Ring
		min, max float64 // in parts of an even share
	}{
		{"160", grown(t, 160), 1, 1},
		{"one more halves one share", grown(t, 160, 1), 161.0 / 320, 161.0 / 160},
		{"doubled", grown(t, 160, 160), 1, 1},
		{"doubled twice", grown(t, 160, 160, 320), 1, 1},
		{"doubled one by one", grown(t, 8, 1, 1, 1, 1, 1, 1, 1, 1), 1, 1},
		{"one", grown(t, 1), 1, 1},
		{"one, doubled", grown(t, 1, 1), 1, 1},
		{"many at once", grown(t, 3, 9), 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := float64(len(tt.ring.Shares()))
			shares := tt.ring.Shares()
			low, high := slices.Min(shares)*n, slices.Max(shares)*n
			if math.Abs(low-tt.min) > 1e-9 || math.Abs(high-tt.max) > 1e-9 {
				t.Errorf("shares from %v to %v of an even one, want %v to %v", low, high, tt.min, tt.max)
			}
		})
	}
}

// TestWeights: a partition has a share for each point, whether it was there from
// the beginning or was added.
func TestWeights(t *testing.T) {
	t.Parallel()
	r, err := New(1, 2, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range []float64{1. / 8, 2. / 8, 1. / 8, 4. / 8} {
		if got := r.Shares()[p]; math.Abs(got-want) > 1e-9 {
			t.Errorf("share of partition %d = %v, want %v", p, got, want)
		}
	}
	if r, err = r.Add(6, 2); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[int]float64{4: 6. / 16, 5: 2. / 16} {
		if got := r.Shares()[p]; math.Abs(got-want) > 1e-9 {
			t.Errorf("share of the new partition %d = %v, want %v", p, got, want)
		}
	}
}

// TestUsersSpread: users at 160, 161 and 320 partitions.
func TestUsersSpread(t *testing.T) {
	t.Parallel()
	before, one, doubled := grown(t, 160), grown(t, 160, 1), grown(t, 160, 160)
	counts := map[*Ring][]int{before: make([]int, 160), one: make([]int, 161), doubled: make([]int, 320)}
	movedByOne, movedByDoubling := 0, 0
	for i := range users {
		position := Position(fmt.Sprintf("user%d@example.com", i))
		for r, count := range counts {
			count[r.Owner(position)]++
		}
		old := before.Owner(position)
		if owner := one.Owner(position); owner != old {
			if movedByOne++; owner != 160 {
				t.Fatalf("user %d moved from %d to %d, which is not the new one", i, old, owner)
			}
		}
		if owner := doubled.Owner(position); owner != old {
			if movedByDoubling++; owner < 160 {
				t.Fatalf("user %d moved from %d to %d, which is not a new one", i, old, owner)
			}
		}
	}
	for _, tt := range []struct {
		ring     *Ring
		min, max float64
	}{{before, 0.92, 1.08}, {one, 0.47, 1.09}, {doubled, 0.89, 1.12}} {
		mean := float64(users) / float64(len(tt.ring.Shares()))
		low, high := float64(slices.Min(counts[tt.ring]))/mean, float64(slices.Max(counts[tt.ring]))/mean
		if low < tt.min || high > tt.max {
			t.Errorf("%d partitions have from %.3f to %.3f of the mean, want %v to %v", len(tt.ring.Shares()), low, high, tt.min, tt.max)
		}
	}
	if got := float64(movedByOne) / users; got < 0.0026 || got > 0.0037 {
		t.Errorf("one more partition takes %.4f of the users, want half a share, 0.0031", got)
	}
	if got := float64(movedByDoubling) / users; got < 0.49 || got > 0.51 {
		t.Errorf("160 more take %.3f of the users, want half", got)
	}
}

// TestProbesAfterDoublings: finding a user that came before g doublings takes g/2
// more look-ups on average and g at most; a walk takes (2^g-1)/2.
func TestProbesAfterDoublings(t *testing.T) {
	t.Parallel()
	first := grown(t, 160)
	for g := 1; g <= 4; g++ {
		r := grown(t, 160, []int{160, 320, 640, 1280}[:g]...)
		probes, steps, most := 0, 0, 0
		const n = 25_000
		for i := range n {
			position := Position(fmt.Sprint("user:", i))
			old := first.Owner(position)
			at := slices.Index(r.Candidates(position), old)
			if at < 0 {
				t.Fatalf("user %d is in partition %d, and the candidates are %v", i, old, r.Candidates(position))
			}
			probes, most = probes+at, max(most, at)
			for p := range r.Walk(position) {
				if p == old {
					break
				}
				steps++
			}
		}
		if got, want := float64(probes)/n, float64(g)/2; math.Abs(got-want) > 0.02 {
			t.Errorf("after %d doublings %.3f more probes, want %.1f", g, got, want)
		}
		if most > g {
			t.Errorf("after %d doublings up to %d more probes, want %d", g, most, g)
		}
		if got, want := float64(steps)/n, float64(int(1)<<g-1)/2; math.Abs(got-want) > 0.05 {
			t.Errorf("after %d doublings a walk takes %.3f more steps, want %.1f", g, got, want)
		}
	}
}

// TestCandidatesAreAllThatItBelongedTo: for any ring that grew in any steps, the
// candidates of a position are its owners in all generations, newest first.
func TestCandidatesAreAllThatItBelongedTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 6)
		ring, err := New(weights.Draw(r, "weights")...)
		if err != nil {
			r.Fatal(err)
		}
		history := []*Ring{ring}
		for range rapid.IntRange(0, 5).Draw(r, "steps") {
			if ring, err = ring.Add(weights.Draw(r, "more")...); err != nil {
				r.Fatal(err)
			}
			history = append(history, ring)
		}
		for _, position := range append(rapid.SliceOfN(rapid.Uint64(), 1, 20).Draw(r, "positions"), 0, math.MaxUint64) {
			var want []int
			for _, before := range slices.Backward(history) {
				if p := before.Owner(position); !slices.Contains(want, p) {
					want = append(want, p)
				}
			}
			if diff := cmp.Diff(want, ring.Candidates(position)); diff != "" {
				r.Fatalf("candidates of %d (-want +got):\n%s", position, diff)
			}
			all := slices.Collect(ring.Walk(position))
			if all[0] != ring.Owner(position) || len(all) != len(ring.Shares()) {
				r.Fatalf("a walk goes over %v", all)
			}
		}
		again, err := Of(ring.Points())
		if err != nil || cmp.Diff(again.Points(), ring.Points()) != "" {
			r.Fatalf("the ring of its own points is another one: %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := grown(t, 2)
	for _, tt := range []struct {
		name string
		make func() (*Ring, error)
		want error
	}{
		{"no partition", func() (*Ring, error) { return New() }, errPoints},
		{"a weight of 0", func() (*Ring, error) { return New(1, 0) }, errWeight},
		{"too many points", func() (*Ring, error) { return New(maxPoints, 1) }, errWeight},
		{"too many more", func() (*Ring, error) { return r.Add(maxPoints) }, errWeight},
		{"nothing to add", func() (*Ring, error) { return r.Add() }, errPoints},
		{"no points", func() (*Ring, error) { return Of(nil) }, errPoints},
		{"a number is left out", func() (*Ring, error) { return Of([]Point{{Partition: 1}}) }, errPoints},
		{"a negative number", func() (*Ring, error) { return Of([]Point{{Partition: -1}}) }, errPoints},
		{"two at one place", func() (*Ring, error) { return Of([]Point{{Partition: 0}, {Partition: 1}}) }, errPoints},
		{"two generations", func() (*Ring, error) { return Of([]Point{{Position: 1}, {Position: 2, Generation: 1}}) }, errPoints},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := tt.make(); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	r := grown(t, 160, 160)
	if n := testing.AllocsPerRun(100, func() { r.Candidates(Position("alice@example.com")) }); n != 0 {
		t.Errorf("a look-up allocates %v times", n)
	}
}
