package fairqueue

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestScriptsRefuseWrongCalls of operators' programs in other languages, before the first write.
func TestScriptsRefuseWrongCalls(t *testing.T) {
	t.Parallel()
	q, flying, deadID := busyLimited(t, redistest.Shared(t).Client(t))
	before := dump(t, q)
	for name, call := range map[string][]string{
		"change without a verb":           {"change"},
		"change with another verb":        {"change", "revive", deadID},
		"change with a verb of Lua":       {"change", "__index", flying.ID},
		"tenant without a verb":           {"tenant", "=a"},
		"tenant with another verb":        {"tenant", "=a", "rename", "=b"},
		"limits that are none":            {"tenant", "=a", "limit", "heavy"},
		"limits with a weight of x":       {"tenant", "=a", "limit", "x . . . . . ."},
		"limits with a weight of 0":       {"tenant", "=a", "limit", "0 . . . . . ."},
		"limits with a rate of 5-5":       {"tenant", "=a", "limit", ". . . 5-5 . . ."},
		"limits with most of 0.5":         {"tenant", "=a", "limit", ". 0.5 . . . . ."},
		"limits without a pause":          {"tenant", "=a", "limit", "1 10 0 1000 0 100"},
		"limits with an eighth word":      {"tenant", "=a", "limit", "1 10 0 1000 0 100 0 ."},
		"limits that are not given":       {"tenant", "=a", "limit"},
		"a pause without an end":          {"tenant", "=a", "suspend"},
		"a pause of nan":                  {"tenant", "=a", "suspend", "nan"},
		"a pause below 0":                 {"tenant", "=a", "suspend", "-1"},
		"a purge from x":                  {"tenant", "=a", "purge", "x"},
		"a purge from a score of x":       {"tenant", "=a", "purge", "x y"},
		"a review from x":                 {"tenant", "default", "review", "x", "0"},
		"the setting version":             {"set", "version", "4"},
		"a good setting and another":      {"set", "paused", "1", "idle", "4"},
		"no attempt":                      {"set", "attempts", "0"},
		"attempts that are no count":      {"set", "attempts", "x"},
		"a setting without its value":     {"set", "paused"},
		"the position of a nameless one":  {"set", "at:", "4"},
		"a position that is not a number": {"set", "at:s", "x"},
		"dead messages that are no count": {"set", "dead_most", "-1"},
		"a pause of the queue that is no": {"set", "paused", "yes"},
	} {
		if _, err := q.run.Run(t.Context(), call[0], baseKey(q.name), call[1:]...); err == nil {
			t.Errorf("%s: no error", name)
		}
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Errorf("%s: the refused call changed the queue (-before +after):\n%s", name, diff)
		}
	}
}
