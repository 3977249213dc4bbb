package recovery

import "time"

// SetInterval sets how often copies are made at most.
func SetInterval(c *Copies, interval time.Duration) { c.interval = interval }
