package shuffleshard

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	anyKey   = rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
	anyItems = rapid.IntRange(1, 200)
)

func TestShardsAreDistinctAndInRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.IntRange(-3, 200).Draw(t, "items")
		count := rapid.IntRange(-3, 210).Draw(t, "count")
		key := anyKey.Draw(t, "key")
		shard := Get(items, count, key)
		if got, want := len(shard), max(0, min(count, items)); got != want {
			t.Fatalf("Get(%d, %d, %q) has %d members, want %d", items, count, key, got, want)
		}
		seen := map[int]bool{}
		for _, member := range shard {
			if member < 0 || member >= items || seen[member] {
				t.Fatalf("Get(%d, %d, %q) = %v, want distinct items", items, count, key, shard)
			}
			seen[member] = true
		}
		if diff := cmp.Diff(shard, Get(items, count, key)); diff != "" {
			t.Fatalf("Get(%d, %d, %q) differs from itself:\n%s", items, count, key, diff)
		}
	})
}

func TestHighestScoresComeFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items, key := anyItems.Draw(t, "items"), anyKey.Draw(t, "key")
		count := rapid.IntRange(1, items).Draw(t, "count")
		all := make([]int, items)
		for i := range all {
			all[i] = i
		}
		hash := hashKey(key)
		slices.SortFunc(all, func(a, b int) int {
			if score(hash, a) > score(hash, b) {
				return -1
			}
			return 1
		})
		if diff := cmp.Diff(all[:count], Get(items, count, key)); diff != "" {
			t.Fatalf("Get(%d, %d, %q) (-want +got):\n%s", items, count, key, diff)
		}
	})
}

func TestShardOfFewerBeginsOneOfMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items, key := anyItems.Draw(t, "items"), anyKey.Draw(t, "key")
		more := rapid.IntRange(1, items).Draw(t, "more")
		fewer := rapid.IntRange(1, more).Draw(t, "fewer")
		if diff := cmp.Diff(Get(items, more, key)[:fewer], Get(items, fewer, key)); diff != "" {
			t.Fatalf("shard of %d from that of %d (-want +got):\n%s", fewer, more, diff)
		}
	})
}

// TestResizeKeepsWhatItCan compares the shards before and after a change of the
// number of items, either way: of the larger one's members, those that the
// smaller number has as well begin the smaller one's shard.
func TestResizeKeepsWhatItCan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items, key := anyItems.Draw(t, "items"), anyKey.Draw(t, "key")
		added := rapid.IntRange(1, 5).Draw(t, "added")
		count := rapid.IntRange(1, items).Draw(t, "count")
		small, large := Get(items, count, key), Get(items+added, count, key)
		kept := slices.DeleteFunc(slices.Clone(large), func(member int) bool { return member >= items })
		if got, least := len(kept), count-added; got < least {
			t.Fatalf("%d items more: %v becomes %v, want at most %d new members", added, small, large, added)
		}
		if diff := cmp.Diff(small[:len(kept)], kept); diff != "" {
			t.Fatalf("%d items more: members that stay (-want +got):\n%s", added, diff)
		}
	})
}

func TestNothingToChoose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ items, count int }{
		{0, 4}, {4, 0}, {0, 0}, {-1, 4}, {4, -1}, {math.MinInt, math.MaxInt}, {math.MaxInt, math.MinInt},
	} {
		if got := Get(tc.items, tc.count, "a"); got != nil {
			t.Errorf("Get(%d, %d) = %v, want nil", tc.items, tc.count, got)
		}
		if diff := cmp.Diff([]float64{1}, Collision(tc.items, tc.count)); diff != "" {
			t.Errorf("Collision(%d, %d) (-want +got):\n%s", tc.items, tc.count, diff)
		}
	}
	if diff := cmp.Diff(Get(5, 5, "a"), Get(5, math.MaxInt, "a")); diff != "" {
		t.Errorf("a count beyond items (-all +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{0, 0, 0, 0, 0, 1}, Collision(5, math.MaxInt)); diff != "" {
		t.Errorf("Collision(5, all) (-want +got):\n%s", diff)
	}
}

func TestGetAllocatesItsResultOnly(t *testing.T) {
	for _, size := range []struct{ items, count int }{{16, 2}, {64, 4}, {300, 100}} {
		if got := testing.AllocsPerRun(100, func() { Get(size.items, size.count, "6f1c2b9e-0d4f-4a57-9d2b-7c0e5a3f8b16") }); got != 1 {
			t.Errorf("Get(%d, %d) allocates %v times, want once", size.items, size.count, got)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []struct{ items, count int }{{16, 2}, {16, 4}, {64, 4}, {1024, 4}} {
		b.Run(fmt.Sprintf("%d/%d", size.items, size.count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Get(size.items, size.count, "6f1c2b9e-0d4f-4a57-9d2b-7c0e5a3f8b16")
			}
		})
	}
}
