//go:build unix && !linux

package redisproc

import "syscall"

// Attributes keeps a Ctrl-C in the terminal from reaching the server before
// this process has drained. There is no parent-death signal here: a server
// outlives a process that dies without calling Stop.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
