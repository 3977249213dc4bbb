package demo

import "time"

// drainTimeout is how long nothing may change before what is worked off counts as stuck.
const drainTimeout = 8 * time.Second

// patience tells what is slow from what is stuck.
type patience[T comparable] struct {
	last T
	at   time.Time
}

// out reports whether what was seen now has been the same for too long.
func (p *patience[T]) out(seen T) bool {
	if now := time.Now(); p.at.IsZero() || seen != p.last {
		p.last, p.at = seen, now
	}
	return time.Since(p.at) >= drainTimeout
}
