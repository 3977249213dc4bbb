package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// clockInterval is how often the two clocks of this process are compared.
const clockInterval = 200 * time.Millisecond

// watchClock detects that the machine was suspended, or stopped by its hypervisor. The
// fence's clock stops then, so the map would seem confirmed for longer. If the wall
// clock has gained more than half of ViewTTL, nothing is written until the directory
// confirms the map again.
func (f *Fleet) watchClock(clock func() clocks) {
	before := clock()
	for retry.Sleep(f.ended, clockInterval) {
		now := clock()
		v := f.view.Load()
		if gap := now.gained(before); gap > time.Duration(v.viewTTL)/2 {
			v.confirmed.Store(never)
			f.cfg.Logger.Warn("this machine's clock jumped, perhaps because it was suspended: writes wait until the directory confirms the map", "by", gap)
			f.refreshSoon()
		}
		before = now
	}
}

// clocks are the two clocks of a process at one time.
type clocks struct {
	wall time.Time
	ran  int64 // by Fleet.now
}

func (f *Fleet) clocks() clocks { return clocks{time.Now().Round(0), f.now()} }

// gained returns how much more than the other clock the wall clock has advanced.
func (c clocks) gained(before clocks) time.Duration {
	return c.wall.Sub(before.wall) - time.Duration(c.ran-before.ran)
}
