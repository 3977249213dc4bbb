//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// neverStopForInput has a process in the background of a terminal find standard input
// at its end, where the kernel would stop it when it reads.
func neverStopForInput() { signal.Ignore(syscall.SIGTTIN) }
