package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/redisproc"
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
	err  error // the rest of the message; nil if the program has said it
}

func (e programError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("the program ended with exit code %d", e.code)
}

func (e programError) Unwrap() error { return e.err }

// errNoStart means that a program could not be started.
var errNoStart = &millrace.Error{Code: "not_started", Message: "the program could not be started", Hint: "Check that the program exists, is executable and is in $PATH."}

// program is the program that a command runs.
type program struct {
	args           []string
	env            []string // in addition to that of this process
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger

	// grace is how long it may go on after SIGTERM.
	grace time.Duration

	// guard kills its process group when this process is gone. Signals reach all of the
	// group. Without a guard the program shares our group, which has the terminal, and
	// signals reach the program alone.
	guard *guard
}

// ending is how a program ended.
type ending struct {
	code int // its exit code

	// stopped means that it was sent a signal before it ended. Its work is not done then,
	// whatever its exit code.
	stopped bool
}

const (
	// linger is how long processes that a program left behind may go on before SIGTERM: one
	// that writes down the program's output ends a moment later.
	linger = time.Second

	// killLimit is after how long a log says that a program survives SIGKILL, which takes
	// effect when the program returns from the kernel.
	killLimit = 5 * time.Second
)

// run starts the program, and returns when it and all others of its process group are gone.
// When stop ends, they get SIGTERM, and SIGKILL after the grace; when kill ends, SIGKILL at
// once. Those that the program leaves behind are stopped likewise.
func (p program) run(stop, kill context.Context) (ending, error) {
	if stop.Err() != nil || kill.Err() != nil {
		return ending{exitStopped, true}, nil
	}
	runtime.LockOSThread() // with the thread that starts it, the program would die
	defer runtime.UnlockOSThread()
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // the user asked for that program; the contexts are below
	let, err := p.guard.hold(cmd)
	if err != nil {
		return ending{code: exitNoStart}, errNoStart.Wrap(err)
	}
	cmd.Env = append(cmd.Environ(), p.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.WaitDelay = time.Second // a process that left the group may hold its output open
	cmd.SysProcAttr = redisproc.Attributes()
	if p.guard == nil {
		share(cmd.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		let(false)
		code := exitNoStart
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = exitNotFound
		}
		return ending{code: code}, errNoStart.Wrap(err)
	}
	kill, cancel := context.WithCancel(kill)
	defer cancel()
	unguarded := p.guard.add(cmd.Process.Pid)
	defer p.guard.remove(cmd.Process.Pid)
	let(unguarded == nil)
	if unguarded != nil {
		cancel()
	}

	var state *os.ProcessState
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, _ = cmd.Process.Wait() // nil if it cannot be waited for
	}()
	stopped := p.await(stop, kill, &processes{cmd.Process, p.guard == nil}, ended)
	_ = cmd.Wait() // for its output, which is copied
	switch {
	case unguarded != nil:
		return ending{exitNoStart, true}, errNoStart.Errorf("the program's guard could not be started").Wrap(unguarded)
	case state == nil:
		return ending{exitNoStart, true}, errNoStart.Errorf("how the program ended is not known")
	}
	return ending{exitCode(state), stopped}, nil
}

// group is a program and the processes that it started.
type group interface {
	terminate()
	kill()

	// alive reports whether any of it is left. It is asked when the program has ended.
	alive() bool
}

// await returns when the program has ended and its group is gone. It reports whether the
// program got a signal before it ended.
func (p program) await(stop, kill context.Context, g group, ended <-chan struct{}) (stopped bool) {
	gone := func(until, orUntil context.Context) bool {
		if !over(ended) {
			select {
			case <-ended:
			case <-until.Done():
				return false
			case <-orUntil.Done():
				return false
			}
		}
		for pause := time.Millisecond; g.alive(); pause = min(2*pause, 100*time.Millisecond) {
			select {
			case <-time.After(pause):
			case <-until.Done():
				return false
			case <-orUntil.Done():
				return false
			}
		}
		return true
	}
	select {
	case <-ended:
	case <-stop.Done():
	case <-kill.Done():
	}
	if stopped = !over(ended); !stopped {
		moment, cancel := context.WithTimeout(stop, linger)
		defer cancel()
		if gone(moment, kill) {
			return false
		}
		p.log.WarnContext(kill, "the program has left processes behind: they are stopped", "program", p.args[0])
	}
	if kill.Err() == nil {
		g.terminate()
		grace, cancel := context.WithTimeout(context.Background(), p.grace)
		defer cancel()
		if gone(grace, kill) {
			return stopped
		}
	}
	for limit := killLimit; ; limit *= 2 {
		g.kill()
		limited, cancel := context.WithTimeout(context.Background(), limit)
		is := gone(limited, limited)
		cancel()
		if is {
			return stopped
		}
		p.log.ErrorContext(kill, "the program survives SIGKILL: its lease or message is kept until it is gone", "program", p.args[0])
	}
}

// over reports whether a channel is closed.
func over(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// runShell runs a command of the shell with input until it ends or ctx does. The reason is the last line of its standard error.
func (a *app) runShell(ctx context.Context, g *guard, command string, grace time.Duration, env []string, input []byte) (end ending, reason string, err error) {
	said := &tail{to: a.stderr}
	end, err = program{
		args: []string{"/bin/sh", "-c", command}, env: env, stdin: bytes.NewReader(input), stdout: a.stdout, stderr: said,
		log: a.logger(), grace: grace, guard: g,
	}.run(ctx, context.Background())
	lines := strings.Split(strings.TrimSpace(string(said.last)), "\n")
	return end, strings.TrimSpace(strings.ToValidUTF8(lines[len(lines)-1], "")), err
}

// tail keeps the end of the text written through it.
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
