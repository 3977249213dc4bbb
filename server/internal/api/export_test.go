package api

import "time"

// SetMarkLife has marks live for so long, for tests that wait until they end.
func (a *API) SetMarkLife(d time.Duration) { a.markLife = d }
