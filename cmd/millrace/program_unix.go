//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// share has a program stay in the process group.
func share(attributes *syscall.SysProcAttr) { attributes.Setpgid = false }

// processes are a program and its process group, or the program alone if the group is also ours.
type processes struct {
	program *os.Process
	shared  bool
}

func (p *processes) terminate() { p.signal(syscall.SIGTERM) }
func (p *processes) kill()      { p.signal(syscall.SIGKILL) }

// signal fails only if there is no process that it could reach.
func (p *processes) signal(s syscall.Signal) {
	if p.shared {
		_ = p.program.Signal(s)
	} else {
		_ = syscall.Kill(-p.program.Pid, s)
	}
}

func (p *processes) alive() bool {
	if p.shared || errors.Is(syscall.Kill(-p.program.Pid, 0), syscall.ESRCH) {
		return false
	}
	return !onlyZombies(p.program.Pid)
}

// onlyZombies reports whether all processes of a group have ended, and wait for a parent that asks how:
// in a container whose first process never asks, they stay. Where /proc is not as on Linux it reports
// false.
func onlyZombies(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	zombies := 0
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		// "PID (NAME) STATE PPID PGRP ...", and a name may have blanks and brackets.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		if state := fields[0][0]; state != 'Z' && state != 'X' {
			return false
		}
		zombies++
	}
	return zombies > 0
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}
