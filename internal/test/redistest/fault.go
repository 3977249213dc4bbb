package redistest

import (
	"strings"
	"sync/atomic"
)

// Fault is a fault that a Proxy applies to matching commands, and the count of how often it
// did.
type Fault struct {
	match func(cmd []string) bool
	once  bool

	count atomic.Int64
	done  chan struct{}
}

func newFault(match func(cmd []string) bool, once bool) *Fault {
	return &Fault{match: match, once: once, done: make(chan struct{})}
}

// Count returns how many commands the fault has struck.
func (f *Fault) Count() int { return int(f.count.Load()) }

// Done returns a channel that is closed when the fault has struck once.
func (f *Fault) Done() <-chan struct{} { return f.done }

// strike reports whether the fault strikes now, and counts it if so. The
// proxy's mutex is held.
func (f *Fault) strike() bool {
	if f.spent() {
		return false
	}
	if f.count.Add(1) == 1 {
		close(f.done)
	}
	return true
}

// spent reports whether the fault will not strike again.
func (f *Fault) spent() bool { return f.once && f.count.Load() > 0 }

// Script matches the commands that run a script.
func Script(cmd []string) bool { return len(cmd[0]) >= 4 && strings.EqualFold(cmd[0][:4], "EVAL") }

// Named matches the commands with one of the names, in any case.
func Named(names ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		for _, name := range names {
			if strings.EqualFold(cmd[0], name) {
				return true
			}
		}
		return false
	}
}
