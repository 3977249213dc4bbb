//go:build unix

package lease

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// child is this test binary as another process that holds a lease.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, what string, server *redistest.Server, name string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+what+" "+server.URL()+" "+name)
	c.cmd.Stderr = os.Stderr
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(output)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) says(want string) {
	c.t.Helper()
	if c.lines.Scan(); c.lines.Text() != want {
		c.t.Fatalf("the holder says %q, want %q", c.lines.Text(), want)
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// TestHolderIsStopped stops a process beyond its deadline. When it goes on, its
// context has ended, and its late writes are refused.
func TestHolderIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	l := openOn(t, server.Client(t), Config{})
	name := redistest.Name(t)
	holder := startChild(t, "do", server, name)
	holder.says("held true <nil>")
	holder.signal(syscall.SIGSTOP)
	next := acquireWith(t, l, name, long, AcquireConfig{Wait: 20 * time.Second})
	if accepted, err := write(t.Context(), l.run.Client, name, next.Fence); !accepted || err != nil {
		t.Fatalf("write of the next holder = %v, %v", accepted, err)
	}
	holder.signal(syscall.SIGCONT)
	holder.says("ended true false <nil> true")
}

// TestOnceIsStopped stops a process in Once beyond its lease. Another one does the work. When the
// first goes on, its success does not count.
func TestOnceIsStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	l := openOn(t, server.Client(t), Config{})
	name := redistest.Name(t)
	stopped := startChild(t, "once", server, name)
	stopped.says("running")
	stopped.signal(syscall.SIGSTOP)
	redistest.Eventually(t, "another process does the work", func() bool {
		ran, err := l.Once(t.Context(), name, long, never, succeed)
		if err != nil && !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		return ran && err == nil
	})
	before, err := l.Show(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	stopped.signal(syscall.SIGCONT)
	stopped.says("ran true true")
	if after, err := l.Show(t.Context(), name); err != nil || after.Fence != before.Fence || after.Metadata != before.Metadata {
		t.Errorf("Show = %+v, %v, want the record as it was: %+v", after, err, before)
	}
}
