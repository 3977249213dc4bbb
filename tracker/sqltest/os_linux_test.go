package sqltest

import "syscall"

// processAttributes ties a process's life to that of the test binary.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
