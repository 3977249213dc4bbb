package millracetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// dirtyMembers returns the members that wait or are reserved, sorted.
func dirtyMembers[D dirty](t testing.TB, client rueidis.Client, d D) []string {
	t.Helper()
	all := map[string]bool{}
	for _, k := range statsOf(t, d) {
		for _, key := range []string{k.Waiting.Key, k.Reserved.Key} {
			if key == "" {
				continue // of an Ick without marks
			}
			members, err := client.Do(t.Context(), client.B().Zrange().Key(key).Min("0").Max("-1").Build()).AsStrSlice()
			if err != nil {
				t.Fatalf("the members of %q: %v", d.Name(), err)
			}
			for _, m := range members {
				all[m] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// WantDirty reports an error unless exactly these members are dirty, in any order: they wait, or
// are reserved. Members that failed and are parked are not among them. Without members nothing may
// be dirty.
func WantDirty[D dirty](t testing.TB, client rueidis.Client, d D, members ...string) {
	t.Helper()
	got := dirtyMembers(t, client, d)
	missing := without(members, got)
	extra := without(got, members)
	if len(missing)+len(extra) == 0 {
		return
	}
	var text []string
	if len(missing) > 0 {
		text = append(text, fmt.Sprintf("%q missing", missing))
	}
	if len(extra) > 0 {
		text = append(text, fmt.Sprintf("%q not wanted", extra))
	}
	if s := sum(t, d); s.parked > 0 {
		text = append(text, fmt.Sprintf("%d parked", s.parked))
	}
	t.Errorf("%q has the dirty members %q: %s", d.Name(), got, strings.Join(text, ", "))
}

// without returns the texts of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(text string) bool { return slices.Contains(b, text) })
}
