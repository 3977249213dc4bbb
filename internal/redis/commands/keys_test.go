package commands

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// samples are commands of every shape, with their keys. A word _ is empty.
var samples = []struct{ words, keys string }{
	// One key, and none.
	{"GET k", "k"},
	{"set k v NX GET", "k"},
	{"HEXPIRE h 1 FIELDS 1 f", "h"},
	{"HGETEX h EX 1 FIELDS 1 f", "h"},
	{"XACKDEL s g KEEPREF IDS 1 1-0", "s"},
	{"DELEX k IFEQ v", "k"},
	{"DELIFEQ k v", "k"},
	{"VADD v VALUES 2 1 1 e", "v"},
	{"ARSET a 0 x y", "a"},
	{"HIMPORT SET h fields x", "h"},
	{"CLUSTERSCAN 0", ""},
	{"PING", ""},
	{"INFO server", ""},
	{"SPUBLISH channel m", ""},
	{"SCRIPT EXISTS a b", ""},
	{"COMMAND", ""},

	// Several.
	{"DEL a b c", "a b c"},
	{"MSET a 1 b 2", "a b"},
	{"LMOVEM a b LEFT RIGHT COUNT 2 BULK", "a b"},
	{"RENAME a b", "a b"},
	{"BITOP AND d a b", "d a b"},
	{"PFMERGE d", "d"},
	{"PFMERGE d a b", "d a b"},
	{"LCS a b LEN", "a b"},
	{"BLPOP a b 0.5", "a b"},
	{"BLMOVE a b LEFT RIGHT 0", "a b"},
	{"WATCH a b", "a b"},

	// Counted.
	{"EVAL script 0 a", ""},
	{"EVAL script 1 a x", "a"},
	{"EVAL script 3 a b c x", "a b c"},
	{"evalsha_ro sha 2 a b", "a b"},
	{"FCALL f 2 a b x", "a b"},
	{"ZUNION 2 a b WEIGHTS 1 2", "a b"},
	{"ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"},
	{"SINTERCARD 2 a b LIMIT 1", "a b"},
	{"SDIFFCARD 2 a b LIMIT 1", "a b"},
	{"MSETEX 2 a 1 b 2 NX EX 10", "a b"},
	{"MSETEX 0 EX 10", ""},
	{"LMPOP 2 a b LEFT", "a b"},
	{"BZMPOP 0 2 a b MIN", "a b"},

	// Behind a word.
	{"XREAD STREAMS a b 0 0", "a b"},
	{"XREAD COUNT 1 BLOCK 0 streams a $", "a"},
	{"XREADGROUP GROUP STREAMS c STREAMS a b > >", "a b"},
	{"GEORADIUS k 0 0 1 m", "k"},
	{"GEORADIUS k 0 0 1 m STORE d", "k d"},
	{"GEORADIUSBYMEMBER k STORE 1 m COUNT 1 storedist d", "k d"},

	// Of subcommands.
	{"XGROUP CREATE k g $ MKSTREAM", "k"},
	{"xinfo stream k FULL", "k"},
	{"OBJECT ENCODING k", "k"},
	{"OBJECT HELP", ""},
	{"MEMORY USAGE k SAMPLES 0", "k"},
	{"MEMORY STATS", ""},

	// By hand.
	{"SORT k", "k"},
	{"SORT k BY nosort GET # STORE d", "k d"},
	{"sort k limit store store store d asc", "k d"},
	{"SORT k STORE a DESC STORE b", "k b"},
	{"SORT_RO k ALPHA", "k"},
	{"MIGRATE host 6379 k 0 10", "k"},
	{"MIGRATE host 6379 _ 0 10 COPY AUTH2 keys KEYS KEYS a b", "a b"},
	{"MIGRATE host 6379 _ 0 10 REPLACE AUTH keys keys a", "a"},
	{"MIGRATE host 6379 _ 0 10 COPY", "_"},
}

// split returns the words of a line, where _ is an empty one.
func split(line string) []string {
	words := strings.Fields(line)
	for i, w := range words {
		if w == "_" {
			words[i] = ""
		}
	}
	return words
}

func keysOf(words []string) (keys []string, known bool) {
	known = EachKey(words, func(key string) bool {
		keys = append(keys, key)
		return true
	})
	return keys, known
}

func TestEachKey(t *testing.T) {
	t.Parallel()
	for _, tc := range samples {
		got, known := keysOf(split(tc.words))
		if want := split(tc.keys); !known || !slices.Equal(got, want) {
			t.Errorf("EachKey(%q) yields %q, known = %v; want %q, true", tc.words, got, known, want)
		}
	}
}

func TestEachKeyWithoutRule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ words, keys string }{
		{"", ""},
		{"NEW k", ""},
		{"XGROUP", ""},
		{"XGROUP NEW k", ""},
		{"GET", ""},
		{"RENAME a", "a"},
		{"EVAL script", ""},
		{"EVAL script _ a", ""},
		{"EVAL script one a", ""},
		{"EVAL script -1 a", ""},
		{"EVAL script 3 a b", ""},
		{"EVAL script 99999999999999999999999999 a", ""},
		{"ZUNIONSTORE d 2 a", "d"},
		{"MSETEX 3 a 1 b 2", ""},
		{"XREAD COUNT 1 a 0", ""},
		{"GEORADIUS k 0 0 1 m STORE", "k"},
		{"SORT", ""},
		{"SORT k STORE", "k"},
		{"SORT k BY w_* STORE d", "k d"},
		{"SORT_RO k GET # GET w_*->f", "k"},
		{"MIGRATE host 6379 k", ""},
	} {
		got, known := keysOf(split(tc.words))
		if want := split(tc.keys); known || !slices.Equal(got, want) {
			t.Errorf("EachKey(%q) yields %q, known = %v; want %q, false", tc.words, got, known, want)
		}
	}
	// The server finds out about these by itself.
	for _, words := range []string{"DEL", "BLPOP k", "XREAD STREAMS k"} {
		if got, known := keysOf(split(words)); !known || got != nil {
			t.Errorf("EachKey(%q) yields %q, known = %v; want nothing, true", words, got, known)
		}
	}
}

// TestEachKeyStops lets yield refuse each key in turn.
func TestEachKeyStops(t *testing.T) {
	t.Parallel()
	for _, tc := range samples {
		all := split(tc.keys)
		for most := 1; most <= len(all); most++ {
			var got []string
			known := EachKey(split(tc.words), func(key string) bool {
				got = append(got, key)
				return len(got) < most
			})
			if diff := cmp.Diff(all[:most], got); diff != "" || !known {
				t.Errorf("EachKey(%q) to key %d, known = %v (-want +got):\n%s", tc.words, most, known, diff)
			}
		}
	}
}

// TestServerAgrees compares the keys of EachKey with those of COMMAND GETKEYS, for the
// samples and for random arguments behind every command.
func TestServerAgrees(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	if refusal, ok := rueidis.IsRedisErr(client.Do(t.Context(), client.B().Arbitrary("COMMAND", "GETKEYSANDFLAGS", "GET", "k").Build()).Error()); ok {
		t.Skipf("COMMAND GETKEYS of this server knows no rules: %v", refusal)
	}
	names := slices.DeleteFunc(commandsOf(t, client), func(name string) bool { return everything().Find(strings.Fields(name)) == nil })
	pieces := [][]string{
		{"a"}, {"b"}, {"c"}, {"0"}, {"1"}, {"2"}, {"2", "a", "b"}, {""}, {"STREAMS"}, {"COUNT", "1"}, {"GROUP", "g", "c"},
		{"STORE", "d"}, {"STOREDIST", "d"}, {"by", "w"}, {"GET", "w_*"}, {"LIMIT", "0", "1"}, {"KEYS", "a", "b"}, {"auth", "keys"},
	}
	// Without these, servers of different versions find keys in different places.
	needed := map[string][]string{
		"XREADGROUP": {"GROUP", "g", "c"}, "GEORADIUS": {"k", "0", "0", "1", "m"}, "GEORADIUSBYMEMBER": {"k", "m", "1", "m"},
	}
	const rounds = 30
	var all [][]string
	for _, tc := range samples {
		all = append(all, split(tc.words))
	}
	for _, name := range names {
		for range rounds {
			words := strings.Fields(name)
			words = append(words, needed[name]...)
			for range rand.IntN(8) {
				words = append(words, pieces[rand.IntN(len(pieces))]...)
			}
			if slices.Contains(words, "STORE") && slices.Contains(words, "STOREDIST") {
				continue // some servers name the key of the last one only, and store there
			}
			if name == "MIGRATE" && words[len(words)-1] == "keys" {
				continue // it is malformed, and some servers name the place of its one key
			}
			all = append(all, words)
		}
	}
	var ask rueidis.Commands
	for _, words := range all {
		ask = append(ask, client.B().Arbitrary("COMMAND", "GETKEYS").Args(words...).Build())
	}
	answered := 0
	for i, answer := range client.DoMulti(t.Context(), ask...) {
		want, err := answer.AsStrSlice()
		if refusal, ok := rueidis.IsRedisErr(err); ok && !strings.Contains(refusal.Error(), "has no key arguments") {
			continue // it does not have the command, or finds its arguments wrong
		} else if !ok && err != nil {
			t.Fatal(err)
		}
		answered++
		if got, _ := keysOf(all[i]); !slices.Equal(got, want) {
			t.Errorf("EachKey(%q) yields %q, and COMMAND GETKEYS says %q", all[i], got, want)
		}
	}
	if least := len(all) / 4; answered < least {
		t.Errorf("the server answered %d questions of %d, want %d or more", answered, len(all), least)
	}
}

func FuzzEachKey(f *testing.F) {
	for _, tc := range samples {
		f.Add(tc.words)
	}
	f.Add("EVAL script 9223372036854775807 a")
	f.Add("ZUNIONSTORE d 18446744073709551615 a")
	f.Fuzz(func(t *testing.T, line string) {
		words := split(line)
		keys, known := keysOf(words)
		rest := words
		for _, key := range keys {
			if !slices.Contains(rest, key) {
				t.Fatalf("EachKey(%q) yields %q: more often than it is there", words, key)
			}
			i := slices.Index(rest, key)
			rest = slices.Delete(slices.Clone(rest), i, i+1)
		}
		if len(words) == 0 {
			return
		}
		words[0] = strings.ToLower(words[0])
		if lower, _ := keysOf(words); !slices.Equal(lower, keys) {
			t.Errorf("EachKey(%q) yields %q, and %q in upper case; known = %v", words, lower, keys, known)
		}
		if d, forever := BlockTime(words); d < 0 || d > 0 && forever {
			t.Errorf("BlockTime(%q) = %v, %v", words, d, forever)
		}
	})
}

func TestEachKeyAllocatesNothing(t *testing.T) {
	lines := []string{"NEW k", "EVAL script 3 a b", "EVAL script -1 a", strings.Repeat("G", longestWord+1)}
	for _, tc := range samples {
		lines = append(lines, tc.words)
	}
	for _, line := range lines {
		words := split(line)
		bytes := 0
		if got := testing.AllocsPerRun(10, func() {
			EachKey(words, func(key string) bool { bytes += len(key); return true })
			BlockTime(words)
		}); got != 0 {
			t.Errorf("EachKey and BlockTime of %q allocate %v times", line, got)
		}
	}
}

func BenchmarkEachKey(b *testing.B) {
	const sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff831"
	for _, line := range []string{
		"GET {tag}:key",
		"EVALSHA " + sha + " 1 {tag}:key 1 2 3",
		"EVAL script 1 {tag}:key 1 2 3",
		"XREADGROUP GROUP g c COUNT 10 BLOCK 1000 STREAMS {tag}:key >",
		"XGROUP CREATE {tag}:key g $",
		"SORT {tag}:key BY nosort STORE {tag}:other",
	} {
		words := strings.Fields(line)
		b.Run(words[0], func(b *testing.B) {
			b.ReportAllocs()
			bytes := 0
			for b.Loop() {
				EachKey(words, func(key string) bool { bytes += len(key); return true })
			}
		})
	}
}
