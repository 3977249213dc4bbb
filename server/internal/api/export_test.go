package api

import "time"

// RoleOf returns the role that an operation needs.
var RoleOf = roleOf

// SetMarkTTL sets the TTL of marks, for tests that wait until they expire.
func (a *API) SetMarkTTL(d time.Duration) { a.cfg.markTTL = d }
