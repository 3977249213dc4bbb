package scatter

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// wrongFlushes are flushes that a program in another language may get wrong. Each begins with runs
// that are right, which a check that comes too late leaves behind.
func wrongFlushes() map[string][]string {
	const late = "9999999999999"
	good := []string{"add", "", "4", "total", "1", "other", "2"}
	calls := map[string][]string{"no time": append([]string{"flush", "soon"}, good...)}
	for what, run := range map[string][]string{
		"an unknown kind":               {"inc", "", "2", "k", "1"},
		"no count":                      {"insert", ""},
		"the count x":                   {"insert", "", "x", "k", "m"},
		"the count 1.5":                 {"insert", "", "1.5", "k", "m"},
		"the count -1":                  {"insert", "", "-1", "k", "m"},
		"the count 0":                   {"insert", "", "0"},
		"a count that is too high":      {"insert", "", "9", "k", "m"},
		"a count that is too low":       {"insert", "", "2", "k", "m", "n"},
		"a set without members":         {"insert", "", "1", "k"},
		"a counter without a summand":   {"add", "", "3", "k", "1", "l"},
		"no counter":                    {"add", "", "0"},
		"an unknown life":               {"insert", "1h", "2", "k", "m"},
		"a life that ends at x":         {"insert", "@x", "2", "k", "m"},
		"a life that ends in the void":  {"insert", "@99999999999999999999", "2", "k", "m"},
		"a bucket of nothing":           {"insert", "0/1000", "2", "k", "m"},
		"a bucket of half a second":     {"insert", "500/1000", "2", "k", "m"},
		"a bucket that is never kept":   {"insert", "1000/0", "2", "k", "m"},
		"a bucket that is kept for all": {"insert", "1000/99999999999999999999", "2", "k", "m"},
		"a list of x":                   {"push", "", "3", "k", "x", "body"},
		"a list of 1.5":                 {"push", "", "3", "k", "1.5", "body"},
		"a list of 0":                   {"push", "", "3", "k", "0", "body"},
		"a list of 10,001":              {"push", "", "3", "k", "10001", "body"},
		"a list without a body":         {"push", "", "2", "k", "1"},
		"a member without a score":      {"score", "", "4", "k", "m", "1", "n"},
		"scores without members":        {"score", "", "1", "k"},
		"the increment inf":             {"score", "", "3", "k", "m", "inf"},
		"a float that is none":          {"float", "", "2", "k", "1,5"},
		"a summand that is none":        {"add", "", "2", "k", "1.5"},
		"a name of our own":             {"insert", "", "2", "mr:audit", "m"},
		"the name of an Ick's key":      {"best", "", "3", "a/ick/{a}/pset", "m", "1"},
		"a counter of our own":          {"add", "", "4", "k", "1", "mr:audit", "1"},
		"our own counter":               {"add", "", "2", "mr:audit", "1"},
		"an empty name":                 {"insert", "", "2", "", "m"},
		"a counter after a set":         slices.Concat([]string{"insert", "", "2", "s", "m"}, []string{"add", "", "2", "k", "1"}),
		"a list after a set":            slices.Concat([]string{"insert", "", "2", "k", "m"}, []string{"push", "", "3", "k", "1", "body"}),
		"too many":                      append([]string{"insert", "", "7001", "k"}, slices.Repeat([]string{"m"}, 7000)...),
	} {
		calls[what] = slices.Concat([]string{"flush", late}, good, run)
	}
	for _, kind := range []string{"score", "best", "least"} {
		for _, bad := range []string{"", "x", "nan", " 1", "1 ", "1\x00", "1e999", "1,5", "--1", "ch"} {
			calls[kind+" of "+bad] = slices.Concat([]string{"flush", late}, good,
				[]string{"insert", "", "2", "set", "m"}, []string{"best", "", "3", "first", "m", "1"}, []string{kind, "", "5", "k", "m", "1", "n", bad})
		}
	}
	return calls
}

// TestScriptRefusesWrongFlushes: a wrong flush is refused as a whole, before the first write.
func TestScriptRefusesWrongFlushes(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		client := redistest.Start(t, redistest.Options{}).Client(t)
		run := script.Runner{Client: client, Scripts: library, Errors: refusals}
		if before {
			if _, err := run.Run(t.Context(), "flush", "mr:scatter:{main}", "9999999999999", "add", "", "2", "total", "5"); err != nil {
				t.Fatal(err)
			}
		}
		scripttest.RefusesWhole(t, &run, "mr:scatter:{main}", "*", wrongFlushes())
	}
}

// TestScoresAreCheckedFirst takes the check of scores out: then a part is written.
func TestScoresAreCheckedFirst(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	run := script.Runner{Client: client, Scripts: scripttest.Without(t, library, "redis.call('ZADD', prefix .. 'none', 'XX', unpack(scores))", "")}
	if _, err := run.Run(t.Context(), "flush", "mr:scatter:{main}", "9999999999999",
		"insert", "", "2", "set", "m", "best", "", "3", "k", "m", "1e999"); err == nil {
		t.Error("the flush was not refused")
	}
	if len(scripttest.Dump(t, client, "set")) == 0 {
		t.Error("nothing was written without the check: the test shows nothing")
	}
}
