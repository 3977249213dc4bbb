package api

import "time"

// RoleOf returns the role that an operation needs.
var RoleOf = roleOf

// SetMarkTTL sets the TTL of marks, for tests that wait until they expire.
func (a *API) SetMarkTTL(d time.Duration) { a.cfg.markTTL = d }

// Rounds returns how many workers' rounds may wait.
func (a *API) Rounds() (n int) {
	a.rounds.mu.Lock()
	defer a.rounds.mu.Unlock()
	for _, some := range a.rounds.of {
		n += len(some)
	}
	return n
}
