package devfleet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestRestartAfter: a server that died is started again, as often as it dies; a start that fails is repeated.
func TestRestartAfter(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	broken := filepath.Join(t.TempDir(), "broken")
	tried := broken + ".tried"
	cfg.Binary = changed(t, "replicaof", fmt.Sprintf("if [ -e %q ]; then touch %q; exit 1; fi", broken, tried))
	cfg.RestartAfter = 100 * time.Millisecond
	f := start(t, cfg)
	master := f.Servers()[0]
	die := func() {
		t.Helper()
		if err := master.Proc.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	restarted := func(before int) {
		t.Helper()
		redistest.Eventually(t, "the server was restarted", func() bool {
			if master.Proc.PID() == before {
				return false
			}
			conn, err := net.Dial("tcp", master.Addr)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
		if got, want := keyspace(t, master), ""; got != want {
			t.Errorf("the server has %s keys, want none", got)
		}
		if got, want := setting(t, master, "replicaof"), "127.0.0.1 1"; got != want {
			t.Errorf("replicaof of the restarted master = %q, want %q", got, want)
		}
	}
	for range 2 {
		before := master.Proc.PID()
		die()
		restarted(before)
	}

	for _, name := range []string{broken, tried} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := master.Proc.PID()
	die()
	for range 2 {
		if err := os.Remove(tried); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "a start is tried", func() bool { _, err := os.Stat(tried); return err == nil })
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	restarted(before)
}

// It looks at processes as only Linux allows, which alone ends them, too.
func TestFleetNeverOutlivesItsStarter(t *testing.T) {
	t.Setenv(binaryEnv, redistest.Binary(t))
	dir := t.TempDir()
	starter := redistest.StartChild(t, starterEnv+"="+dir)
	starter.Lines(1)
	if got, want := len(processesIn(t, dir)), 3; got != want {
		t.Fatalf("%d processes of the starter's fleet, want %d", got, want)
	}
	starter.Kill()
	redistest.Eventually(t, "the servers end with their starter", func() bool { return len(processesIn(t, dir)) == 0 })
}
