package redisproc

import "syscall"

// Attributes ties the server's life to the starting thread, and keeps a Ctrl-C
// in the terminal from reaching the server before this process has drained.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
