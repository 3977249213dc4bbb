package lease

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsRefuseWrongCalls makes calls that a program in another language may get wrong: each is
// refused and changes nothing. Numbers and lengths have a fixed width in a lease, so a wrong one
// would break it for all.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	l, free, held := open(t, Config{}), redistest.Name(t), redistest.Name(t)
	acquireWith(t, l, held, long, AcquireConfig{Token: "mine"})
	calls := map[string][]string{
		"acquire without a token":      {"acquire", "", "1000"},
		"acquire with a long token":    {"acquire", strings.Repeat("t", 65), "1000"},
		"acquire with a long metadata": {"acquire", "other", "1000", strings.Repeat("m", 4097)},
		"acquire with an odd waiter":   {"acquire", "other", "1000", "", "a b;"},
		"acquire with a long waiter":   {"acquire", "other", "1000", "", strings.Repeat("w", 65)},
		"done without an end":          {"done", "mine", "", "done", "1"},
		"done at x":                    {"done", "mine", "xxxxxxxxxxxxx", "done", "1"},
		"done in 14 digits":            {"done", "mine", "99999999999999", "done", "1"},
		"done with a long text":        {"done", "mine", "9999999999999", strings.Repeat("m", 4097), "1"},
		"done in no period":            {"done", "mine", "9999999999999", "done"},
		"done in a period of 0":        {"done", "mine", "9999999999999", "done", "0"},
		"done in a long period":        {"done", "mine", "9999999999999", "done", "31622400001"},
	}
	for _, ttl := range []string{"", "x", "0", "-1", "1.5", "1e3", "inf", "nan", " 1", "0x10", "31622400001", "99999999999999999999"} {
		calls["acquire for "+ttl] = []string{"acquire", "other", ttl}
		calls["refresh for "+ttl] = []string{"refresh", "mine", ttl}
	}
	for _, name := range []string{free, held} {
		scripttest.RefusesWhole(t, &l.run, baseKey(name), "*"+name+"*", calls)
	}
	shard := "mr:leases:{" + redistest.Name(t) + "}"
	if err := do(t, l.run.Client, "ZADD", shard, "1000", "a", "1000", "b").Error(); err != nil {
		t.Fatal(err)
	}
	scripttest.RefusesWhole(t, &l.run, shard, shard, map[string][]string{
		"due for x":           {"due", "10", "x"},
		"due of x":            {"due", "x", "1000"},
		"settle again in x":   {"settle", "1000", "a", "-1", "b", "x"},
		"settle without when": {"settle", "1000", "a", "-1", "b"},
	})
}
