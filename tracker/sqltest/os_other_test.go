//go:build !linux

package sqltest

import "syscall"

// processAttributes does nothing here: there is no parent-death signal.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
