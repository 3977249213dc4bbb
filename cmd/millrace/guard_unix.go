//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// guardArgument has this binary be a guard.
const guardArgument = "guard-programs"

// guard is a process of this binary that outlives ours, and then kills the process groups of our
// programs. It reads their numbers from a pipe, which ends when our process does, also by SIGKILL.
// A program begins when the guard has its number: a shell waits until then, and ends if our process
// does before.
//
//	our process ──▶ "PID" started, "-PID" gone ──▶ guard ──▶ at the end of the pipe: SIGKILL
//	            ──▶ a line ──▶ shell ──▶ the program in its place
type guard struct {
	mu     sync.Mutex
	groups map[int]bool

	process *exec.Cmd
	pipe    io.WriteCloser
}

// newGuard starts a guard. Close it at the end.
func newGuard() (*guard, error) {
	g := &guard{groups: make(map[int]bool)}
	return g, g.start()
}

// start starts the process, and tells it the groups. Call it with mu held, or before others
// have the guard.
func (g *guard) start() error {
	self := "/proc/self/exe" // also when the file was replaced since
	if _, err := os.Stat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return fmt.Errorf("find the guard's binary: %w", err)
		}
	}
	process := exec.Command(self, guardArgument) //nolint:noctx // it ends with its pipe
	process.Args[0] = "millrace"
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of a terminal reaches it
	pipe, err := process.StdinPipe()
	if err != nil {
		return fmt.Errorf("make the guard's pipe: %w", err)
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	g.process, g.pipe = process, pipe
	var all strings.Builder
	for group := range g.groups {
		fmt.Fprintf(&all, "%d\n", group)
	}
	_, err = io.WriteString(pipe, all.String())
	return err
}

// waiting has a shell wait for a line of its third descriptor, and become the program then.
const waiting = `read -r millrace_line <&3 && exec "$@" 3<&-`

// hold has a command wait in a shell when it is started, until let says whether it may begin. A nil guard
// holds none.
func (g *guard) hold(cmd *exec.Cmd) (let func(may bool), err error) {
	if g == nil || cmd.Err != nil {
		return func(bool) {}, nil //nolint:nilerr // Start returns it
	}
	line, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the pipe of a program: %w", err)
	}
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"/bin/sh", "-c", waiting, "sh"}, cmd.Args...)
	cmd.ExtraFiles = []*os.File{line}
	return func(may bool) {
		defer pipe.Close()
		_ = line.Close() // the shell has its own
		if may {
			_, _ = io.WriteString(pipe, "\n") // or the shell was killed
		}
	}, nil
}

// add has a process group guarded. A nil guard does nothing.
func (g *guard) add(group int) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group] = true
	return g.tell(group)
}

// remove is the end of a group.
func (g *guard) remove(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	_ = g.tell(-group) // a guard that cannot be started does not know it
}

// tell writes one number. If the process was killed, another takes its place. Call it with mu
// held.
func (g *guard) tell(number int) error {
	if _, err := fmt.Fprintln(g.pipe, number); err == nil {
		return nil
	}
	g.end()
	return g.start()
}

// end ends the process. Call it with mu held.
func (g *guard) end() {
	_ = g.process.Process.Kill() // or it was killed before
	_ = g.process.Wait()
}

// close ends the guard when all programs are gone. A nil guard does nothing.
func (g *guard) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
}

// beGuard is the process of a guard, if the arguments say so.
func beGuard(args []string, in io.Reader) bool {
	if len(args) != 1 || args[0] != guardArgument {
		return false
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	groups := make(map[int]bool)
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // of half a number nothing is known
			break
		}
		switch number, _ := strconv.Atoi(strings.TrimSpace(line)); {
		case number > 1:
			groups[number] = true
		case number < -1:
			delete(groups, -number)
		}
	}
	for group := range groups {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	return true
}
