//go:build unix && !linux

package demo

import "syscall"

// attributes keeps a Ctrl-C in the terminal for this process alone, which then
// ends its children.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
