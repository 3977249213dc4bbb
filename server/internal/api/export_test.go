package api

import "time"

// Audited are the operations that the audit log has.
var Audited = audited

// SetMarkTTL sets the TTL of marks, for tests that wait until they expire.
func (a *API) SetMarkTTL(d time.Duration) { a.cfg.markTTL = d }
