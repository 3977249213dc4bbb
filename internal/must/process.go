package must

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/redis/redisproc"
)

// Process is a child that ends when its standard input ends.
type Process struct {
	Stdin io.WriteCloser
	Done  chan struct{} // closed when it has ended and all its lines were heard

	cmd  *exec.Cmd
	said bytes.Buffer
	err  error // set when Done is closed
}

// StartProcess starts a command from a thread that lives as long as the process: the kernel
// sends the signal of the parent's death when the starting thread ends. Hear gets each line of
// its output, and ended, unless nil, is called when it has ended, before Done is closed.
func StartProcess(cmd *exec.Cmd, hear func(line []byte), ended func(*Process)) (*Process, error) {
	p := &Process{cmd: cmd, Done: make(chan struct{})}
	cmd.SysProcAttr = redisproc.Attributes()
	cmd.Stderr = &p.said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.Stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewReader(stdout) // a last line that was cut off is dropped
		for line, err := lines.ReadBytes('\n'); err == nil; line, err = lines.ReadBytes('\n') {
			hear(line)
		}
		p.err = cmd.Wait()
		if ended != nil {
			ended(p)
		}
		close(p.Done)
	}()
	return p, <-started
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Err returns how an ended process failed, with its standard error; nil if it did not.
func (p *Process) Err() error {
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", p.err, strings.TrimSpace(p.said.String()))
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.Done
}

// Finish closes the standard input and waits for the end, which comes with SIGKILL if it takes
// too long.
func (p *Process) Finish(within time.Duration) {
	_ = p.Stdin.Close() // it may have ended already
	select {
	case <-p.Done:
	case <-time.After(within):
		p.Kill()
	}
}
