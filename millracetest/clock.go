package millracetest

import "time"

// Advance moves the server's clock by d, which must not be negative. It needs [Mini], and fails the
// test on a real server. The first call stops the clock: from then on only Advance moves it, so
// that a test sees the same on a slow machine. Delays, visibilities, backoffs, deadlines of leases
// and TTLs that passed have an effect on the next call to Redis; a queue looks for due work only
// every 100 ms of this clock. A reader that sleeps notices within a second, [RunUntilEmpty] at once.
//
// Clocks of this process go on as ever: [lease.Lease.Context] ends by them, and so do timeouts.
func (s *Server) Advance(d time.Duration) {
	s.t.Helper()
	switch {
	case s.mini == nil:
		s.t.Fatalf("Advance: the clock of a real server cannot be moved: start the test's Redis with millracetest.Mini")
	case d < 0:
		s.t.Fatalf("Advance: %s is negative, and the clock only moves forward", d)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.now.IsZero() {
			s.now = time.Now()
		}
		s.now = s.now.Add(d)
		s.mini.SetTime(s.now)
	}
}
