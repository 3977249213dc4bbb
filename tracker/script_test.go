package tracker

import (
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsKeepTheRules runs the checks of luacheck on each script: commands of Redis 6.2, keys of one slot,
// its header.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// TestOnACluster takes trackers through their lives on several masters.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t, 3, 0).Client(t)
	for _, name := range []string{"plain", "with:colons", "with spaces", "x", "ünï", "a*b"} {
		work := &table{}
		tr := openOn(t, client, name, Config{Source: work})
		work.start("a", "b")
		pass(t, tr)
		add(t, tr, "c")
		work.finish("a")
		verifyOne(t, tr)
		wantState(t, tr, "a", NotQueued)
		wantState(t, tr, "b", Queued)
		if got := stats(t, tr); got.Tracked != 1 || got.Counters.Removed != 2 {
			t.Errorf("Stats of %q = %+v, want one tracked and two removed", name, got)
		}
		if n, err := tr.Delete(t.Context()); n != 2 || err != nil {
			t.Errorf("Delete of %q = %d, %v, want 2 keys", name, n, err)
		}
	}
}
