package pinned

import (
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsRefuseWrongCalls makes calls that a program in another language may get wrong: each is
// refused and changes nothing.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	k := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "n", Config{Shards: 1})
	setKey(t, k, "k", "value", keyLong)
	calls := map[string][]string{
		"set of the empty name":         {"set", "1", "", "1000", "", "v"},
		"set under a condition":         {"set", "1", "k", "1000", "absent", "v"},
		"set without a value":           {"set", "1", "k", "1000", ""},
		"expire of the empty name":      {"expire", "1", "", "1000"},
		"delete of the empty name":      {"delete", "1", "k", ""},
		"reap of x":                     {"reap", "1", "x"},
		"reap of 1.5":                   {"reap", "1", "1.5"},
		"repair of an unknown part":     {"repair", "1", "all", "0"},
		"repair from x":                 {"repair", "1", "due", "x"},
		"a shard of another number":     {"set", "2", "k", "1000", "", "v"},
		"begin a shard that has begun":  {"begin", "2"},
		"a delete of more than allowed": append([]string{"delete", "1"}, strings.Split(strings.Repeat("k ", 101), " ")[:101]...),
	}
	for _, ttl := range []string{"", "x", "0", "-1", "1.5", "1e3", "inf", "nan", " 1", "0x10", strconv.Itoa(1 << 48), "99999999999999999999"} {
		calls["set for "+ttl] = []string{"set", "1", "k", ttl, "", "v"}
		calls["expire in "+ttl] = []string{"expire", "1", "k", ttl}
	}
	scripttest.RefusesWhole(t, &k.space.Run, "mr:key:{n/0}", "mr:key*", calls)
	scripttest.RefusesWhole(t, &k.space.Run, "mr:key:{m/0}", "mr:key*", map[string][]string{
		"a new shard of x": {"begin", "x"}, "a new shard of 0": {"begin", "0"}, "a new shard of 1.5": {"begin", "1.5"}, "a new shard of 1e9": {"begin", "1e9"}, "a new shard of 257": {"begin", "257"},
	})
	for _, lanes := range []string{"lanes:0", "lanes:1"} {
		keyRaw(t, k.space.Run.Client, "SET", "mr:key:{"+lanes+"/0}:"+lanes, "text")
		scripttest.RefusesWhole(t, &k.space.Run, "mr:key:{"+lanes+"/0}", "mr:key*", map[string][]string{"a new shard with foreign " + lanes: {"begin", "1"}})
	}
	scripttest.RefusesWhole(t, &k.space.Run, "mr:keys:{m}", "mr:key*", map[string][]string{
		"a namespace of x": {"claim", "x"}, "a namespace of -1": {"claim", "-1"}, "a namespace of 1.5": {"claim", "1.5"}, "a namespace of 257": {"claim", "257"},
	})
	scripttest.RefusesWhole(t, &k.space.Run, "mr:keys:{n}", "mr:key*", map[string][]string{
		"rest for x": {"rest", "x"}, "rest for a day": {"rest", "86400000"}, "rest for -1": {"rest", "-1"},
	})
	if _, err := k.space.Run.Run(t.Context(), "rest", "mr:keys:{m}", "1"); err != nil {
		t.Error(err)
	}
	if n := keyRaw(t, k.space.Run.Client, "EXISTS", "mr:keys:{m}"); n != "0" {
		t.Error("a rest has made the record of a namespace that does not exist")
	}
	if got := getKey(t, k, "k"); got != "value" {
		t.Errorf("the value = %q, want %q", got, "value")
	}
}
