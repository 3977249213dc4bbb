package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// process is a command that runs until it is interrupted, as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *redistest.Log
}

// command returns the command as a process.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	d := &process{t: t, cmd: command(t, args...), stderr: new(redistest.Log)}
	d.cmd.Stderr = d.stderr
	stdin, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdin, d.stdout = stdin, bufio.NewReader(stdout)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// If it hangs, its last words are where.
	alarm := time.AfterFunc(time.Minute, func() { d.cmd.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() {
		alarm.Stop()
		d.cmd.Process.Kill() // its servers end with it
	})
	return d
}

// line returns the next line that the command prints.
func (d *process) line() string {
	d.t.Helper()
	line, err := d.stdout.ReadString('\n')
	if err != nil {
		d.t.Fatalf("it printed %q, and ends with %v:\n%s", line, err, d.stderr)
	}
	return line
}

// end sends a signal, and checks that the command prints nothing more and ends
// well.
func (d *process) end(signal os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	rest, _ := io.ReadAll(d.stdout)
	if err := d.cmd.Wait(); err != nil || len(rest) > 0 {
		d.t.Errorf("after %v it ends with %v, having printed %q; want exit code 0 and nothing:\n%s", signal, err, rest, d.stderr)
	}
}
