package etcdtest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// put tries to write through a member within a time.
func put(t *testing.T, m *Member, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := m.Client(t).Put(ctx, "k", "v")
	return err
}

// TestCuts: a member that is cut off from its peers takes no writes, and the others elect
// another leader if it led. Healed, it takes them again.
func TestCuts(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	old := c.Leader()
	old.CutPeers()
	redistest.Eventually(t, "the others have a leader", func() bool {
		for _, m := range c.Members {
			if m != old && m.leads() {
				return true
			}
		}
		return false
	})
	if err := put(t, old, time.Second); err == nil {
		t.Error("a member that is cut off from its peers took a write")
	}
	old.Heal()
	redistest.Eventually(t, "the healed member takes writes", func() bool { return put(t, old, 5*time.Second) == nil })
}

// TestKillFreezeRestart: the others go on.
func TestKillFreezeRestart(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	killed := c.Leader()
	killed.Kill()
	if next := c.Leader(); next == killed {
		t.Error("a killed member leads")
	}
	killed.Restart()
	redistest.Eventually(t, "the restarted member takes writes", func() bool { return put(t, killed, 5*time.Second) == nil })
	frozen := c.Leader()
	frozen.Freeze()
	if next := c.Leader(); next == frozen {
		t.Error("a frozen member leads")
	}
	frozen.Thaw()
	redistest.Eventually(t, "the thawed member takes writes", func() bool { return put(t, frozen, 5*time.Second) == nil })
}

// skipped is a testing.TB that notes how a test ended.
type skipped struct {
	testing.TB
	verdict string
}

func (s *skipped) Skipf(string, ...any)  { s.verdict = "skip" }
func (s *skipped) Fatalf(string, ...any) { s.verdict = "fatal" }

// TestMissingEtcd: only a build that failed skips a test, and not in CI.
func TestMissingEtcd(t *testing.T) {
	t.Setenv("MILLRACE_TEST_ETCD", filepath.Join(t.TempDir(), "etcd"))
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		missing := &skipped{TB: t}
		if Binary(missing); missing.verdict != "fatal" {
			t.Errorf("with CI=%q a missing MILLRACE_TEST_ETCD ended the test with %q, want fatal", ci, missing.verdict)
		}
		failed := &skipped{TB: t}
		want := map[string]string{"": "skip", "true": "fatal"}[ci]
		if end(failed, fmt.Errorf("%w: no network", errNotBuilt)); failed.verdict != want {
			t.Errorf("with CI=%q a build that failed ended the test with %q, want %q", ci, failed.verdict, want)
		}
	}
}
