package fleet

import (
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// clockEvery is how often the two clocks of this process are compared.
const clockEvery = 200 * time.Millisecond

// watchClock notices that the machine was suspended, or the hypervisor stopped it. The
// clock by which the fence counts stands still then, and by it the map would still be
// confirmed. The wall clock has gone on when it is set right: by more than half a
// ViewTTL, and nothing is written before the directory confirms the map again.
func (f *Fleet) watchClock(clock func() clocks) {
	before := clock()
	for retry.Sleep(f.ended, clockEvery) {
		now := clock()
		v := f.view.Load()
		if gap := now.gained(before); gap > time.Duration(v.viewTTL)/2 {
			v.confirmed.Store(never)
			f.cfg.Logger.Warn("this machine's clock jumped, as when it was suspended: the fence does not count such a time", "by", gap)
			f.refreshSoon()
		}
		before = now
	}
}

// clocks are a process's two clocks at one time.
type clocks struct {
	wall time.Time
	ran  int64 // see Fleet.now
}

func (f *Fleet) clocks() clocks { return clocks{time.Now().Round(0), f.now()} }

// gained returns by how much more the wall clock has gone on since than the other one.
func (c clocks) gained(before clocks) time.Duration {
	return c.wall.Sub(before.wall) - time.Duration(c.ran-before.ran)
}
