package expiry

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestCommandsOfASet: a field of a hash that exists is set with four commands in one script, as
// long as no deadline is earlier than all others, and nothing has expired.
func TestCommandsOfASet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	h := openOn(t, server.Client(t), "n", Config{Shards: 1, AllowEvictable: true})
	put(t, h, "with", "a", "1", hashLong)
	put(t, h, "without", "a", "1", 0)
	commands := func(call func()) map[string]int {
		before := shardstest.Asked(server)
		call()
		asked := shardstest.Asked(server)
		for name, n := range before {
			if asked[name] -= n; asked[name] == 0 {
				delete(asked, name)
			}
		}
		delete(asked, "info") // counts itself
		return asked
	}
	put(t, h, "with", "b", "1", 2*hashLong)
	redistest.Eventually(t, "the namespace is registered, which is a command too", func() bool {
		return slices.Contains(listed(t, h.space.Run.Client), "n")
	})
	for what, want := range map[string]map[string]int{
		"with":    {"evalsha": 1, "time": 1, "hget": 1, "hset": 1, "zadd": 1},
		"without": {"evalsha": 1, "time": 1, "hget": 1, "hset": 1},
	} {
		ttl := 2 * hashLong
		if what == "without" {
			ttl = 0
		}
		if diff := cmp.Diff(want, commands(func() { put(t, h, what, "b", "2", ttl) })); diff != "" {
			t.Errorf("commands of a set of a hash %s deadlines (-want +got):\n%s", what, diff)
		}
	}
}
