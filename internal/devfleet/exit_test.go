package devfleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

func TestExited(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	exited := make(chan Server, 10)
	cfg.Exited = func(s Server) { exited <- s }
	f := start(t, cfg)
	for _, s := range append(f.Servers(), f.Directory()) {
		for range 2 {
			if err := s.Proc.Kill(); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-exited:
				if got != s {
					t.Errorf("exited: %s, want %s", got, s)
				}
			case <-deadline(t).Done():
				t.Fatalf("Exited was not called for %s", s)
			}
			if err := s.Proc.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(exited) != 0 {
		t.Errorf("exited by Stop: %s", <-exited)
	}
}

// A server that died is started again, as often as it dies, and one that cannot be
// is tried again.
func TestRestartAfter(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Dir = t.TempDir()
	broken := filepath.Join(cfg.Dir, "broken")
	cfg.Binary = changed(t, "replicaof", fmt.Sprintf("if [ -e %q ]; then echo out of order; exit 1; fi", broken))
	cfg.RestartAfter = 100 * time.Millisecond
	type restart struct {
		server Server
		err    error
	}
	restarts := make(chan restart, 100)
	cfg.Restarted = func(s Server, err error) { restarts <- restart{s, err} }
	f := start(t, cfg)
	next := func() restart {
		t.Helper()
		select {
		case r := <-restarts:
			return r
		case <-deadline(t).Done():
			t.Fatal("Restarted was not called")
		}
		return restart{}
	}
	master := f.Servers()[0]
	for range 2 {
		before := master.Proc.PID()
		if err := master.Proc.Kill(); err != nil {
			t.Fatal(err)
		}
		if got := next(); got.server != master || got.err != nil {
			t.Errorf("restarted: %s, %v, want %s", got.server, got.err, master)
		}
		if got, want := keyspace(t, master), ""; got != want || master.Proc.PID() == before {
			t.Errorf("the server has %s keys and the process %d, want none and another one", got, master.Proc.PID())
		}
		if got, want := setting(t, master, "replicaof"), "127.0.0.1 1"; got != want {
			t.Errorf("replicaof of the restarted master = %q, want %q", got, want)
		}
	}

	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := master.Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := next(); got.err == nil || !strings.Contains(got.err.Error(), "out of order") {
			t.Errorf("restarted: %v, want why it cannot be", got.err)
		}
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it is restarted after all", func() bool { return next().err == nil })
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
