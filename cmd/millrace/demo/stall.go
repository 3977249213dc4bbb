package demo

import "time"

// drainTimeout is how long nothing may change before what is worked off counts as stuck.
const drainTimeout = 8 * time.Second

// stall tells what is slow from what is stuck.
type stall[T comparable] struct {
	last T
	at   time.Time
}

// lasts reports whether what is seen now has been the same for drainTimeout.
func (s *stall[T]) lasts(seen T) bool {
	if now := time.Now(); s.at.IsZero() || seen != s.last {
		s.last, s.at = seen, now
	}
	return time.Since(s.at) >= drainTimeout
}
