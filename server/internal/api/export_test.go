package api

import "time"

// ActionOf returns the name of an operation in the audit log.
var ActionOf = actionOf

// SetMarkTTL sets the TTL of marks, for tests that wait until they expire.
func (a *API) SetMarkTTL(d time.Duration) { a.cfg.markTTL = d }
