package devfleet

import (
	"testing"

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
				t.Fatalf("nobody was told that %s exited", s)
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
