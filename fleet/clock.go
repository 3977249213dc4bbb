package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
)

// clockInterval is how often the two clocks of this process are compared.
const clockInterval = 200 * time.Millisecond

// watchClock detects that the machine was suspended, or stopped by its hypervisor. The
// fence's clock stops then, so the map would seem confirmed for longer. If the wall
// clock has gained more than half of ViewTTL, nothing is written until the directory
// confirms the map again.
func (f *Fleet) watchClock(ahead func() time.Duration) {
	before := ahead()
	for retry.Sleep(f.ended, clockInterval) {
		now := ahead()
		v := f.view.Load()
		if gap := now - before; gap > time.Duration(v.viewTTL)/2 {
			v.confirmed.Store(never)
			f.cfg.Logger.Warn("this machine's clock jumped, perhaps because it was suspended: writes wait until the directory confirms the map", "by", gap)
			f.refreshSoon()
		}
		before = now
	}
}

// ahead returns how much more than the fence's clock the wall clock has advanced.
func (f *Fleet) ahead() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(f.start.Round(0)) - now.Sub(f.start)
}
