package demo

import "syscall"

// attributes ties a child's life to the thread that starts it, and keeps a
// Ctrl-C in the terminal for this process alone, which then ends its children.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
