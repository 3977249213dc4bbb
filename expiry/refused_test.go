package expiry

import (
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsRefuseWrongCalls makes calls that a program in another language may get wrong: each is
// refused and changes nothing.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	h := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "n", Config{Shards: 1})
	put(t, h, inHash, "a", "1", hashLong)
	put(t, h, inHash, "b", "2", hashLong)
	calls := map[string][]string{
		"put in a hash without a name":    {"put", "1", "", "none", "0", "a", "v"},
		"put for an unknown life":         {"put", "1", inHash, "keep", "1000", "a", "v"},
		"put without a value":             {"put", "1", inHash, "none", "0", "a", "v", "b"},
		"put of nothing":                  {"put", "1", inHash, "none", "0"},
		"set in a hash without a name":    {"set", "1", "", "", "none", "0", "a", "v"},
		"set under a condition":           {"set", "1", inHash, "absent", "none", "0", "a", "v"},
		"set for an unknown life":         {"set", "1", inHash, "", "for", "1000", "a", "v"},
		"set without a value":             {"set", "1", inHash, "", "none", "0", "a", "v", "b"},
		"set of nothing":                  {"set", "1", inHash, "", "none", "0"},
		"set in the past without a value": {"set", "1", inHash, "", "at", "1000", "a", "v", "b"},
		"expire under a condition":        {"expire", "1", inHash, "later", "none", "0", "a"},
		"expire for an unknown life":      {"expire", "1", inHash, "", "keep", "1000", "a"},
		"expire in a hash without a name": {"expire", "1", "", "", "none", "0", "a"},
		"delete from no hash":             {"delete", "1", "", "a"},
		"drop of no hash":                 {"drop", "1", ""},
		"reap of x":                       {"reap", "1", "x", inHash},
		"reap of -1":                      {"reap", "1", "-1", inHash},
		"reap of too many":                {"reap", "1", "1001", inHash},
		"repair of an unknown part":       {"repair", "1", inHash, "all", "0"},
		"repair from x":                   {"repair", "1", inHash, "fields", "x"},
		"clear of no hash":                {"clear", "1", ""},
	}
	for _, ms := range []string{"", "x", "1.5", "1e3", "inf", "nan", " 1", "0x10", strconv.Itoa(1<<48 - 1), "99999999999999999999"} {
		for _, life := range []string{"in", "at"} {
			calls["set "+life+" "+ms] = []string{"set", "1", inHash, "", life, ms, "a", "v", "new", "v"}
			calls["put "+life+" "+ms] = []string{"put", "1", inHash, life, ms, "a", "v", "new", "v"}
			calls["expire "+life+" "+ms] = []string{"expire", "1", inHash, "", life, ms, "a", "b"}
		}
	}
	for _, by := range []string{"", "x", "1.5", "1e3", " 1", "+1", "01", "9223372036854775808", "-9223372036854775809"} {
		calls["increment of a by "+by] = []string{"incr", "1", inHash, "a", by}
		calls["increment of a new field by "+by] = []string{"incr", "1", inHash, "new", by}
	}
	scripttest.RefusesWhole(t, &h.space.Run, "mr:hash:{n/0}", "mr:hash*", calls)
	for by, want := range map[string]int64{"9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "0": 0, "-5": -5, "123456789012345678": 123456789012345678} {
		r, err := h.space.Run.Run(t.Context(), "incr", "mr:hash:{n/0}", "1", inHash, "from "+by, by)
		if err != nil || r.Int() != want {
			t.Errorf("increment of a new field by %s = %v, want %d", by, err, want)
		}
	}
}
