//go:build unix

package redisproc

import (
	"errors"
	"os"
	"syscall"
)

func pause(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks the server to end, and wakes it if it is paused, for a
// stopped process takes no signal but SIGKILL and SIGCONT.
func terminate(p *os.Process) error {
	return errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT))
}
