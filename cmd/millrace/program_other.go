//go:build !unix

package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

func share(*syscall.SysProcAttr) {}

// processes are a program alone: there are no process groups here.
type processes struct {
	program *os.Process
	shared  bool
}

func (p *processes) terminate()           { _ = p.program.Kill() }
func (p *processes) kill()                { _ = p.program.Kill() }
func (*processes) alive() bool            { return false }
func exitCode(state *os.ProcessState) int { return state.ExitCode() }

// guard does nothing: there are no process groups here.
type guard struct{}

func newGuard() (*guard, error) { return &guard{}, nil }
func (*guard) add(int) error    { return nil }
func (*guard) hold(*exec.Cmd) (func(bool), error) {
	return func(bool) {}, nil
}
func (*guard) remove(int)              {}
func (*guard) close()                  {}
func beGuard([]string, io.Reader) bool { return false }
