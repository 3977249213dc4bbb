package scatter

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"
)

// TestSessionIsWholeOrNothing flushes random sessions onto random values. A session that
// is refused leaves all as it was; an applied one has the effect of its operations one by one.
func TestSessionIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2) // the second one has each operation by itself
	both, single := newScatter(t, servers[:1], Config{}), newScatter(t, servers[1:], Config{})
	a, b := servers[0].Client(t), servers[1].Client(t)
	century := Bucket{Every: 100 * 365 * 24 * time.Hour, At: time.Unix(0, 0)}
	rapid.Check(t, func(rt *rapid.T) {
		must(t, a, "FLUSHALL")
		must(t, b, "FLUSHALL")
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "d:0", "e", "e:0"})
		for _, k := range []string{"a", "b", "c", "d", "d:0", "e", "e:0"} {
			command := rapid.SampledFrom([][]string{
				nil, nil, {"SET", k, "5"}, {"SET", k, "5", "EX", "1000"}, {"SET", k, "0", "EX", "1000"}, {"SET", k, "-9223372036854775808"},
				{"SET", k, "9223372036854775807"}, {"SET", k, "0.5"}, {"SET", k, "1e308"}, {"RPUSH", k, "1 x", "1 y"}, {"SADD", k, "m"}, {"ZADD", k, "1", "m"},
			}).Draw(rt, "before")
			if command != nil {
				must(t, a, command...)
				must(t, b, command...)
			}
		}
		before := values(t, a)
		session, refused := both.Session("x"), false
		for range rapid.IntRange(1, 8).Draw(rt, "operations") {
			k := key.Draw(rt, "key")
			bucketed := rapid.Bool().Draw(rt, "in a bucket")
			verb := rapid.IntRange(0, 6).Draw(rt, "verb")
			n := rapid.SampledFrom([]int64{0, 1, -5, 5, math.MaxInt64, math.MinInt64}).Draw(rt, "n")
			x := rapid.SampledFrom([]float64{1, -1, 1e308}).Draw(rt, "x") // no fractions: those are lost at 2^63 one by one, and not together
			write := func(s *Session) {
				if bucketed {
					s = s.In(century)
				}
				switch verb {
				case 0, 1:
					s.Add(k, n)
				case 2:
					s.AddFloat(k, x)
				case 3:
					s.Push(k, 2, []byte("b"))
				case 4:
					s.Insert(k, "m", "n")
				case 5:
					s.Score(k, "m", x, Sum)
				case 6:
					s.Score(k, "m", x, Max)
				}
			}
			write(session)
			alone := single.Session("x")
			write(alone)
			if alone.Flush(t.Context()) != nil {
				refused = true
			}
		}
		err := session.Flush(t.Context())
		after := values(t, a)
		switch {
		case err != nil:
			if diff := cmp.Diff(before, after); diff != "" {
				rt.Fatalf("refused with %v, and (-before +after):\n%s", err, diff)
			}
		case !refused:
			// One that is written both with an end and without may get either.
			if diff := cmp.Diff(endless(values(t, b)), endless(after)); diff != "" {
				rt.Fatalf("one by one and (-) together (+):\n%s", diff)
			}
		}
	})
}

// values are the contents of a server without the library's own keys and the server's
// times in lists. A 0 that stays for ever is as good as none.
func values(t *testing.T, client rueidis.Client) map[string]string {
	t.Helper()
	all := contents(t, client)
	for key, value := range all {
		if strings.HasPrefix(key, "mr:") || value == "GET 0" {
			delete(all, key)
		} else if strings.HasPrefix(value, "LRANGE") {
			all[key] = clocks.ReplaceAllString(value, "AT b")
		}
	}
	return all
}

// endless returns the values without their ends.
func endless(values map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range values {
		if value = strings.TrimSuffix(value, ", and expires"); value != "GET 0" {
			all[key] = value
		}
	}
	return all
}

var clocks = regexp.MustCompile(`\d{13} b`)
