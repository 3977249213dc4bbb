package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redisproc"
)

// Exit codes of programs that the command runs, and of the command that runs one. Others are
// the program's own.
const (
	exitBadData  = 65  // EX_DATAERR: no other attempt will help
	exitHeld     = 75  // EX_TEMPFAIL: another holder has the lease
	exitStopped  = 124 // as of timeout: the command stopped the program
	exitNoStart  = 126 // as of a shell: the program could not be started
	exitNotFound = 127 // as of a shell: there is no such program
	exitSignal   = 128 // and the signal's number, as of a shell: a signal ended the program
)

// programError is how the command ends when that depends on a program that it ran.
type programError struct {
	code int
	err  error // what else to say; nil if the program has said it
}

func (e programError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("the program ended with exit code %d", e.code)
}

func (e programError) Unwrap() error { return e.err }

// errNoStart means that a program could not be started.
var errNoStart = &millrace.Error{Code: "not_started", Hint: "Check that the program exists, is executable and is in $PATH."}

// program is what a command runs.
type program struct {
	args           []string
	env            []string // in addition to that of this process
	stdin          io.Reader
	stdout, stderr io.Writer

	// grace is how long it may go on after SIGTERM.
	grace time.Duration

	// terminal: it shares the process group, which has the terminal. Else it has its own,
	// and signals reach all processes that it starts.
	terminal bool
}

// run starts the program and returns its exit code. When stop ends, the program gets SIGTERM,
// and SIGKILL after its grace; when kill ends, SIGKILL at once. On Linux it also gets SIGKILL
// when this process dies.
func (p program) run(stop, kill context.Context) (int, error) {
	runtime.LockOSThread() // with the thread that starts it, the program would die
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // that is what the user asked for; the contexts are below
	cmd.Env = append(cmd.Environ(), p.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.WaitDelay = time.Second // processes that it left behind may hold its output open
	cmd.SysProcAttr = redisproc.Attributes()
	if p.terminal {
		share(cmd.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		code := exitNoStart
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = exitNotFound
		}
		return code, errNoStart.Errorf("%s", err)
	}
	ended := make(chan struct{})
	signalled := make(chan struct{})
	go func() {
		defer close(signalled)
		select {
		case <-ended:
			return
		case <-kill.Done():
		case <-stop.Done():
			_ = terminate(cmd.Process, p.terminal)
			grace := time.NewTimer(p.grace)
			defer grace.Stop()
			select {
			case <-ended:
				return
			case <-kill.Done():
			case <-grace.C:
			}
		}
		_ = killAll(cmd.Process, p.terminal)
	}()
	err := cmd.Wait()
	close(ended)
	<-signalled
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && !errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		return 0, fmt.Errorf("feed the program: %w", err)
	}
	return exitCode(cmd.ProcessState), nil
}

// tail keeps the end of what is written through it.
type tail struct {
	to   io.Writer
	last []byte
}

// maxTail is how much of it, in bytes.
const maxTail = 500

func (t *tail) Write(text []byte) (int, error) {
	t.last = append(t.last, text[max(0, len(text)-maxTail):]...)
	t.last = slices.Delete(t.last, 0, max(0, len(t.last)-maxTail))
	return t.to.Write(text)
}
