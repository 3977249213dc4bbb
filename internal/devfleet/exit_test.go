package devfleet

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// logged returns a Config's Logger, and its log.
func logged() (*slog.Logger, *redistest.Log) {
	said := new(redistest.Log)
	return slog.New(slog.NewTextHandler(said, nil)), said
}

// wantLogged waits until so many lines of the log are about a server.
func wantLogged(t *testing.T, said *redistest.Log, times int, s Server, what string) {
	t.Helper()
	line := fmt.Sprintf("msg=%q addr=%s", s.String()+" "+what, s.Addr)
	redistest.Eventually(t, fmt.Sprintf("%d times: %s", times, line), func() bool { return said.Count(line) >= times })
}

func TestExited(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	var said *redistest.Log
	cfg.Logger, said = logged()
	f := start(t, cfg)
	for _, s := range append(f.Servers(), f.Directory()) {
		for i := range 2 {
			pid := s.Proc.PID()
			if err := s.Proc.Kill(); err != nil {
				t.Fatal(err)
			}
			wantLogged(t, said, i+1, s, "died")
			if said.Count(fmt.Sprintf("pid=%d\n", pid)) != 1 {
				t.Errorf("the log does not have the process %d once:\n%s", pid, said)
			}
			if err := s.Proc.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := said.String()
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := said.String(); got != before {
		t.Errorf("Stop logs %s", strings.TrimPrefix(got, before))
	}
}

// A server that died is started again, as often as it dies; a start that fails is
// repeated.
func TestRestartAfter(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Dir = t.TempDir()
	broken := filepath.Join(cfg.Dir, "broken")
	cfg.Binary = changed(t, "replicaof", fmt.Sprintf("if [ -e %q ]; then echo out of order; exit 1; fi", broken))
	cfg.RestartAfter = 100 * time.Millisecond
	var said *redistest.Log
	cfg.Logger, said = logged()
	f := start(t, cfg)
	master := f.Servers()[0]
	for i := range 2 {
		before := master.Proc.PID()
		if err := master.Proc.Kill(); err != nil {
			t.Fatal(err)
		}
		wantLogged(t, said, i+1, master, "was restarted")
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
	wantLogged(t, said, 2, master, "cannot be restarted")
	if said.Count("out of order") < 2 {
		t.Errorf("the log does not say why it cannot be restarted:\n%s", said)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	wantLogged(t, said, 3, master, "was restarted")
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
