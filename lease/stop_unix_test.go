//go:build unix

package lease

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

// TestHolderIsStopped stops a process beyond its deadline. When it goes on, its
// context has ended, and what it writes all the same is refused.
func TestHolderIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	l := openOn(t, server.Client(t), Config{})
	name := redistest.Name(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+server.URL()+" "+name)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	lines := bufio.NewScanner(output)
	line := func(want string) {
		t.Helper()
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("the holder says %q, want %q", lines.Text(), want)
		}
	}
	line("held true <nil>")
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := acquireWith(t, l, name, long, AcquireConfig{Wait: 20 * time.Second})
	if accepted, err := write(t.Context(), l.run.Client, name, next.Fence); !accepted || err != nil {
		t.Fatalf("write of the next holder = %v, %v", accepted, err)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line("ended true false <nil> true")
}
