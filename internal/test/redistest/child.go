package redistest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Child is the test binary again, as a process of its own that a test may kill.
type Child struct {
	t      testing.TB
	cmd    *exec.Cmd
	input  io.Writer
	output *bufio.Scanner
	once   sync.Once
}

// StartChild runs the test binary with one more variable, "NAME=value", in its environment,
// which its TestMain checks. The child should end when its standard input does, so that it
// does not outlive the test; it is killed at the test's end.
func StartChild(t testing.TB, variable string) *Child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &Child{t: t, cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), variable)
	c.cmd.Stderr = os.Stderr
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewScanner(output)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// Lines waits until the child has written n lines, or has ended.
func (c *Child) Lines(n int) {
	for range n {
		if !c.output.Scan() {
			return
		}
	}
}

// Tell writes a line to the child's standard input.
func (c *Child) Tell(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.input, line); err != nil {
		c.t.Errorf("tell: %v", err)
	}
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the child with SIGKILL and returns when it is gone.
func (c *Child) Kill() {
	c.once.Do(func() {
		if err := c.cmd.Process.Kill(); err != nil {
			c.t.Errorf("kill: %v", err)
		}
		_ = c.cmd.Wait()
	})
}
