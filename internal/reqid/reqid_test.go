package reqid_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	script "github.com/millrace/millrace/internal/oldscript"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// remember keeps "done ID" for each of the ids ARGV[1]..ARGV[2], with as many
// bytes behind as ARGV[3] says; recall answers with what is remembered for one;
// age makes the current hash as much older, in microseconds. The ids begin with a
// letter that has each of them look whether it is time to turn.
const (
	prelude  = "local req = KEYS[1] .. ':req'"
	remember = "for id = ARGV[1], ARGV[2] do reqid_remember(string.format('A%d', id), 'done ' .. id .. string.rep('.', ARGV[3])) end"
	recall   = "return reqid_recall('A' .. ARGV[1])"
	age      = "redis.call('HINCRBY', KEYS[1] .. ':req', 'since', -ARGV[1])"
)

func TestAnswersAreKeptForAWindow(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	run := script.Runner{Client: client}
	write := script.New("test.remember", remember, prelude, reqid.Fragment)
	read := script.New("test.recall", recall, prelude, reqid.Fragment)
	older := script.New("test.age", age)

	type step struct{ first, last, minutes, size int }
	for _, tt := range []struct {
		name      string
		steps     []step
		known     []int
		forgotten []int
	}{
		{"the same moment", []step{{first: 1, last: 3}}, []int{1, 2, 3}, []int{4}},
		{"after a minute", []step{{first: 1, last: 1, minutes: 1}, {first: 2, last: 2}}, []int{1, 2}, nil},
		{"after two minutes", []step{
			{first: 1, last: 1, minutes: 1}, {first: 2, last: 2}, {first: 3, last: 3, minutes: 1}, {first: 4, last: 4},
		}, []int{3, 4}, []int{1, 2}},
		{"after 10,000 others", []step{{first: 1, last: 10_001}}, []int{1, 5000, 10_001}, nil},
		{"after 20,000 others", []step{{first: 1, last: 10_000}, {first: 10_001, last: 20_002}}, []int{10_001, 20_002}, []int{1, 10_000}},
		{"after 8 MB", []step{{first: 1, last: 9, size: 1_000_000}, {first: 10, last: 10}}, []int{10}, nil},
		{"after 16 MB", []step{{first: 1, last: 1}, {first: 2, last: 19, size: 1_000_000}, {first: 20, last: 20}}, []int{20}, []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key := "{" + redistest.Name(t) + "}"
			for _, s := range tt.steps {
				if _, err := run.Run(t.Context(), write, key, strconv.Itoa(s.first), strconv.Itoa(s.last), strconv.Itoa(s.size)); err != nil {
					t.Fatal(err)
				}
				if s.minutes > 0 {
					if _, err := run.Run(t.Context(), older, key, fmt.Sprint(int64(s.minutes)*60e6+1e6)); err != nil {
						t.Fatal(err)
					}
				}
			}
			get := func(id int) string {
				reply, err := run.Run(t.Context(), read, key, strconv.Itoa(id))
				if err != nil {
					t.Fatal(err)
				}
				text, _ := reply.ToString()
				return text
			}
			for _, id := range tt.known {
				if got, want := get(id), fmt.Sprint("done ", id); got != want {
					t.Errorf("answer to %d = %q, want %q", id, got, want)
				}
			}
			for _, id := range tt.forgotten {
				if got := get(id); got != "" {
					t.Errorf("answer to %d = %q, want none: the window is over", id, got)
				}
			}
			for _, part := range []string{":req", ":req_before"} {
				n, err := client.Do(t.Context(), client.B().Hlen().Key(key+part).Build()).AsInt64()
				if err != nil || n > 10_002 {
					t.Errorf("%s holds %d, %v, want it bounded", part, n, err)
				}
			}
		})
	}
}

// form is what ids look like, whatever they come from.
var form = regexp.MustCompile(`^[A-Z2-7]{26}$`)

func TestNew(t *testing.T) {
	t.Parallel()
	if a, b := reqid.New(), reqid.New(); a == b || !form.MatchString(a) {
		t.Errorf("ids %q and %q, want two different ones of 26 letters and digits", a, b)
	}
}

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
	// What a release derives, the next one must: processes are replaced by newer ones.
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
	if random[0] == random[1] || slices.Contains(ids, random[0]) {
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

// TestFirstTryUnderASeedMayBeARepeat: a script that looks answers up on repeats only
// does so for what another process may have asked before.
func TestFirstTryUnderASeedMayBeARepeat(t *testing.T) {
	t.Parallel()
	const source = `
if ARGV[#ARGV] ~= '1' and reqid_recall(ARGV[1]) then
  return 'repeated'
end
redis.call('HSET', req, ARGV[1], 'done')
return 'done'`
	once := script.New("test.once", source, prelude, reqid.Fragment).Numbered()
	key := "{" + redistest.Name(t) + "}"
	for _, tt := range []struct{ seed, want string }{
		{"a", "done"}, {"a", "repeated"}, {"b", "done"}, {"", "done"}, {"", "done"}, {"a", "repeated"},
	} {
		run := script.Runner{Client: redistest.Shared(t).Client(t)}
		ctx := reqid.With(t.Context(), tt.seed)
		reply, err := run.Run(ctx, once, key, reqid.Next(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := reply.ToString(); got != tt.want {
			t.Errorf("a call under the seed %q = %q, want %q", tt.seed, got, tt.want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	within, cancel := context.WithCancel(context.WithValue(b.Context(), new(int), 1))
	defer cancel()
	b.Run("New", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reqid.New()
		}
	})
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
