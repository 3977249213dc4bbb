//go:build unix

package main

import (
	"os"
	"syscall"
)

// share has a program stay in the process group.
func share(attributes *syscall.SysProcAttr) { attributes.Setpgid = false }

func terminate(p *os.Process, terminal bool) error { return signalTo(p, terminal, syscall.SIGTERM) }
func killAll(p *os.Process, terminal bool) error   { return signalTo(p, terminal, syscall.SIGKILL) }

// signalTo signals the program, and its process group unless that is also ours.
func signalTo(p *os.Process, terminal bool, s syscall.Signal) error {
	if terminal {
		return p.Signal(s)
	}
	return syscall.Kill(-p.Pid, s)
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}
