package scripttest

import (
	"maps"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/script"
)

// RefusesWhole makes calls with wrong arguments, as a program in another language may: the name of
// a script and its arguments. It reports those that were not refused, and those that changed a key
// that the pattern matches.
func RefusesWhole(t *testing.T, run *script.Runner, key, pattern string, calls map[string][]string) {
	t.Helper()
	before := Dump(t, run.Client, pattern)
	for _, what := range slices.Sorted(maps.Keys(calls)) {
		call := calls[what]
		if _, err := run.Run(t.Context(), call[0], key, call[1:]...); err == nil {
			t.Errorf("%s: no error", what)
		}
		after := Dump(t, run.Client, pattern)
		for key := range after {
			if after[key] != before[key] {
				t.Errorf("%s: the refused call changed %q", what, key)
			}
			delete(before, key)
		}
		if len(before) > 0 {
			t.Errorf("%s: the refused call removed %q", what, slices.Collect(maps.Keys(before)))
		}
		before = after
	}
}

// Dump returns the bytes of all keys that a pattern matches.
func Dump(t *testing.T, client rueidis.Client, pattern string) map[string]string {
	t.Helper()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern(pattern).Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	state := make(map[string]string, len(keys))
	for _, key := range keys {
		text, err := client.Do(t.Context(), client.B().Dump().Key(key).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		state[key] = text
	}
	return state
}
