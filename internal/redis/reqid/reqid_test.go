package reqid_test

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// form is the form of all ids, random or derived.
var form = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// draw returns the next n ids under a context.
func draw(ctx context.Context, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = reqid.Next(ctx)
	}
	return ids
}

func TestIdsComeFromASeed(t *testing.T) {
	t.Parallel()
	first := draw(reqid.With(t.Context(), "order 7"), 3)
	// The next release must derive the same ids: newer processes replace older ones.
	want := []string{"MJGX2MYIGMRRXWDBUTYA2QUY76", "UAEKSZT7JXMJX4US6HIBQHF2X6", "XCOKYKD6LXZPML6CSRMA4TDV6E"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, draw(reqid.With(t.Context(), "order 7"), 3)); diff != "" {
		t.Errorf("ids under the same seed (-first +second):\n%s", diff)
	}
	seen := map[string]string{}
	for _, seed := range []string{"order 7", "order 8", "order 7\x00", "\x00order 7", "\x00\x00\x00\x00\x00\x00\x00\x01", "7"} {
		for _, id := range draw(reqid.With(t.Context(), seed), 100) {
			if other, ok := seen[id]; ok || !form.MatchString(id) {
				t.Errorf("id %q of seed %q, want one of its own and of 26 letters and digits; seed %q has it too", id, seed, other)
			}
			seen[id] = seed
		}
	}
}

// TestSeedsDoNotMix: each context counts for itself, its descendants go on counting,
// and where a seed is taken away ids are random.
func TestSeedsDoNotMix(t *testing.T) {
	t.Parallel()
	ids := draw(reqid.With(t.Context(), "a"), 4)
	ctx := reqid.With(t.Context(), "a")
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	other, none := reqid.With(ctx, "b"), reqid.With(ctx, "")
	got := []string{reqid.Next(ctx), reqid.Next(within)}
	draw(other, 2)
	random := draw(none, 2)
	got = append(got, reqid.Next(ctx), reqid.Next(within))
	if diff := cmp.Diff(ids, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	if random[0] == random[1] || slices.Contains(ids, random[0]) || !form.MatchString(random[0]) {
		t.Errorf("ids without a seed = %q, want two that nobody else has", random)
	}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want bool
	}{
		{"none", t.Context(), false}, {"an empty one", reqid.With(t.Context(), ""), false}, {"one", within, true}, {"one taken away", none, false},
	} {
		if got := reqid.Seeded(tt.ctx); got != tt.want {
			t.Errorf("Seeded with %s = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNextIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 50
	want := draw(reqid.With(t.Context(), "a"), goroutines*each)
	ctx := reqid.With(t.Context(), "a")
	got := make([][]string, goroutines)
	var running sync.WaitGroup
	for i := range got {
		running.Go(func() { got[i] = draw(ctx, each) })
	}
	running.Wait()
	all := slices.Concat(got...)
	slices.Sort(all)
	slices.Sort(want)
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("ids that goroutines drew, sorted (-want +got):\n%s", diff)
	}
}

func BenchmarkNext(b *testing.B) {
	within, cancel := context.WithCancel(context.WithValue(b.Context(), new(int), 1))
	defer cancel()
	b.Run("Next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reqid.Next(within)
		}
	})
	b.Run("Next of a seed", func(b *testing.B) {
		b.ReportAllocs()
		seeded := reqid.With(within, "a")
		for b.Loop() {
			reqid.Next(seeded)
		}
	})
}
