package scatter

import (
	order "cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestGatherIsWhatOneServerWouldHave makes the same writes on some servers, each on one
// of them, and on a single one, and reads both.
func TestGatherIsWhatOneServerWouldHave(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 4)
	clients := make([]rueidis.Client, len(servers))
	for i, one := range servers {
		clients[i] = one.Client(t)
	}
	alone := clients[3]
	sc := scatterOver(t, Clients(clients[:3]...), steadyConfig)
	rapid.Check(t, func(rt *rapid.T) {
		prefix := redistest.Name(t) + "-"
		both := func(args ...string) {
			args[1] = prefix + args[1]
			must(t, alone, args...)
			must(t, clients[rapid.IntRange(0, 2).Draw(rt, "server")], args...)
		}
		member := rapid.SampledFrom([]string{"a", "b", "c", "B", "", "\x00", "ü"})
		score := rapid.Map(rapid.IntRange(-8, 8), func(n int) string { return fmt.Sprint(float64(n) / 4) })
		for i := range rapid.IntRange(0, 25).Draw(rt, "writes") {
			switch rapid.IntRange(0, 6).Draw(rt, "kind") {
			case 0:
				both("INCRBY", "n", fmt.Sprint(rapid.Int64Range(-1<<58, 1<<58).Draw(rt, "n")))
			case 1:
				both("INCRBYFLOAT", "x", score.Draw(rt, "x"))
			case 2:
				both("LPUSH", "list", at(int64(i), member.Draw(rt, "body")))
			case 3:
				both("SADD", "set", member.Draw(rt, "member"))
			case 4:
				both("ZINCRBY", "sum", score.Draw(rt, "by"), member.Draw(rt, "member"))
			case 5:
				both("ZADD", "best", "GT", score.Draw(rt, "score"), member.Draw(rt, "member"))
			default:
				both("ZADD", "least", "LT", score.Draw(rt, "score"), member.Draw(rt, "member"))
			}
		}

		g := sc.Gather()
		limit := rapid.IntRange(1, 10).Draw(rt, "limit")
		n, x, set, list := g.Int(prefix+"n"), g.Float(prefix+"x"), g.Set(prefix+"set"), g.List(prefix+"list", limit)
		merged := map[string]*Result[[]Scored]{}
		for key, merge := range map[string]Merge{"sum": Sum, "best": Max, "least": Min} {
			merged[key] = g.Scores(prefix+key, merge, limit)
		}
		if err := g.Read(t.Context()); err != nil {
			rt.Fatal(err)
		}

		if got, want := n.Value, integer(t, alone, "GET", prefix+"n"); got != want {
			rt.Errorf("Int = %d, want %d", got, want)
		}
		want, _ := strconv.ParseFloat(text(t, alone, "GET", prefix+"x"), 64)
		if got := x.Value; got != want {
			rt.Errorf("Float = %v, want %v", got, want)
		}
		members := words(t, alone, "SMEMBERS", prefix+"set")
		slices.Sort(members)
		if !slices.Equal(set.Value, members) {
			rt.Errorf("Set = %q, want %q", set.Value, members)
		}
		var entries []string
		for _, e := range list.Value {
			entries = append(entries, at(e.At.UnixMilli(), string(e.Body)))
		}
		if want := words(t, alone, "LRANGE", prefix+"list", "0", fmt.Sprint(limit-1)); !slices.Equal(entries, want) {
			rt.Errorf("List = %q, want %q", entries, want)
		}
		for key, got := range merged {
			var want []Scored
			scores, err := do(alone, "ZRANGE", prefix+key, "0", "-1", "WITHSCORES").AsZScores()
			if err != nil {
				rt.Fatal(err)
			}
			for _, s := range scores {
				want = append(want, Scored{s.Member, s.Score})
			}
			// Those of the same score are in byte order already.
			slices.SortStableFunc(want, func(a, b Scored) int { return order.Compare(b.Score, a.Score) })
			if want = want[:min(limit, len(want))]; !slices.Equal(got.Value, want) {
				rt.Errorf("Scores of %s = %v, want %v", key, got.Value, want)
			}
		}
	})
}

// numbers are parts of one server each.
func numbers(texts ...string) []part {
	var parts []part
	for i, text := range texts {
		parts = append(parts, part{fmt.Sprint("s", i), "k", value{texts: []string{text}}})
	}
	return parts
}

func TestSumInts(t *testing.T) {
	t.Parallel()
	const most, least = "9223372036854775807", "-9223372036854775808"
	for _, one := range []struct {
		parts []string
		want  int64
		err   error
	}{
		{nil, 0, nil},
		{[]string{most}, math.MaxInt64, nil},
		{[]string{most, "1"}, 0, ErrOverflow},
		{[]string{most, "1", "-1"}, math.MaxInt64, nil},
		{[]string{most, most, least, least}, -2, nil},
		{[]string{least, "-1"}, 0, ErrOverflow},
		{[]string{least, "-1", "1"}, math.MinInt64, nil},
		{[]string{least, least, most}, 0, ErrOverflow},
		{[]string{"9223372036854775808"}, 0, ErrType},
		{[]string{"1.0"}, 0, ErrType},
		{[]string{""}, 0, ErrType},
	} {
		got, err := sumInts(numbers(one.parts...))
		if got != one.want || !errors.Is(err, one.err) {
			t.Errorf("sum of %q = %d, %v, want %d, %v", one.parts, got, err, one.want, one.err)
		}
	}
}

// TestEntriesOfClocksThatDiffer: whatever the clocks say, a server's entries stay in
// their order.
func TestEntriesOfClocksThatDiffer(t *testing.T) {
	t.Parallel()
	parts := []part{
		{"a", "k", value{texts: []string{at(5, "a3"), at(9, "a2"), at(1, "a1")}}}, // its clock was set back
		{"b", "k", value{texts: []string{at(9, "b2"), at(5, "b1")}}},
		{"c", "k", value{}},
	}
	for limit, want := range map[int][]string{
		10: {"b 9 b2", "a 5 a3", "a 9 a2", "b 5 b1", "a 1 a1"},
		2:  {"b 9 b2", "a 5 a3"},
	} {
		got, err := mergeEntries(parts, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, bodies(got)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// TestNoMoreIsUnpackedThanNeeded: behind the limit there may be anything.
func TestNoMoreIsUnpackedThanNeeded(t *testing.T) {
	t.Parallel()
	parts := []part{
		{"a", "k", value{texts: []string{at(9, "a"), at(8, "b"), "no entry"}}},
		{"b", "k", value{texts: []string{at(1, pack([]byte("c"), true)), "nor this"}}},
	}
	got, err := mergeEntries(parts, 1)
	if diff := cmp.Diff([]Entry{{At: time.UnixMilli(9), Body: []byte("a"), Server: "a"}}, got); diff != "" || err != nil {
		t.Errorf("one entry: %v (-want +got):\n%s", err, diff)
	}
	_, err = mergeEntries(parts, 5)
	wantError(t, err, ErrType)
}
