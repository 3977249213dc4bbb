//go:build !unix

package main

import (
	"os"
	"syscall"
)

func share(*syscall.SysProcAttr)            {}
func terminate(p *os.Process, _ bool) error { return p.Kill() }
func killAll(p *os.Process, _ bool) error   { return p.Kill() }
func exitCode(state *os.ProcessState) int   { return state.ExitCode() }
