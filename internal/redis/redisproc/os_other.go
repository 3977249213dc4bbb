//go:build !unix

package redisproc

import (
	"errors"
	"os"
	"syscall"
)

// Attributes returns nothing on this system.
func Attributes() *syscall.SysProcAttr { return nil }

func pause(*os.Process) error       { return errors.ErrUnsupported }
func resume(*os.Process) error      { return errors.ErrUnsupported }
func terminate(p *os.Process) error { return p.Kill() }
