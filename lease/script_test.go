package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestScriptsKeepTheRules runs the checks of luacheck on each script: commands of Redis 6.2, keys of one slot,
// its header.
func TestScriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	scripttest.Check(t, library)
}

// TestOnACluster runs a lease through its life on several masters, and lists and
// reaps on all of them.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	l := openOn(t, cluster.Client(t), Config{})
	names := map[string]bool{"plain": true, "with:colons": true, "with spaces": true, "x": true, "ünï": true, "a*b": true}
	for name := range names {
		lease := acquire(t, l, name, long)
		if err := lease.Refresh(t.Context(), long); err != nil {
			t.Errorf("Refresh of %q: %v", name, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release of %q: %v", name, err)
		}
		wantOnce(t, l, name, true)
		wantOnce(t, l, name, false)
		abandon(t, l, name)
	}
	if diff := cmp.Diff(names, list(t, l.run.Client, "")); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	job := l.reapJob()
	redistest.Eventually(t, "all are reaped", func() bool {
		if _, err := job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name := range names {
			if exists(t, l, name) {
				return false
			}
		}
		return true
	})
}

// TestOneEvictingMasterIsEnough: a lease may come to lie on any master.
func TestOneEvictingMasterIsEnough(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	evicting := cluster.MasterOf("any").Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
	must(t, evicting, "CONFIG", "SET", "maxmemory", "8mb")
	must(t, evicting, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	l := openOn(t, cluster.Client(t), Config{})
	for i := range 10 { // on all of them
		_, err := l.Acquire(t.Context(), fmt.Sprint(i), long, AcquireConfig{})
		wantError(t, err, millrace.ErrEvictable)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	for _, name := range []string{"", "a{b", "a}", "\x00", "a\nb", "\x7f", strings.Repeat("n", 513)} {
		_, err := l.Acquire(t.Context(), name, long, AcquireConfig{})
		wantError(t, err, millrace.ErrBadName)
		_, err = l.Show(t.Context(), name)
		wantError(t, err, millrace.ErrBadName)
		wantError(t, l.Release(t.Context(), name, "t"), millrace.ErrBadName)
	}
}
