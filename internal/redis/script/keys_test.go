package script_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/script"
)

// TestKeys: a call declares the keys that it may touch, and only the base key if they are
// not known beforehand.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		touches        string
		keys, patterns []string
	}{
		{"K", []string{"b"}, []string{"b"}},
		{"K, due, v:ARGV[2...]", []string{"b", "b:due", "b:v:2", "b:v:3"}, []string{"b", "b:due", "b:v:*"}},
		{"due, s:*", []string{"b"}, []string{"b", "b:due", "b:s:*"}},
		{"due, any key", []string{"b"}, []string{"b", "b:due", "*"}},
	} {
		l := script.Load(fstest.MapFS{"s.lua": {Data: []byte("-- test.s(K) -> 1\n-- Touches  " + tt.touches + "\nreturn 1")}}, "K:")
		s := l.Script("s")
		if diff := cmp.Diff(tt.keys, l.Keys(s, "b", []string{"1", "2", "3"})); diff != "" {
			t.Errorf("keys of %q (-want +got):\n%s", tt.touches, diff)
		}
		if diff := cmp.Diff(tt.patterns, l.Patterns(s, "b")); diff != "" {
			t.Errorf("patterns of %q (-want +got):\n%s", tt.touches, diff)
		}
	}
}
