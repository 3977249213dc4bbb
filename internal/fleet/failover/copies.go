package failover

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// copies keeps a copy of the map on all members, for the case that the directory loses it: it
// stores them on the masters, and they replicate. See package recovery.
type copies struct {
	busy sync.Mutex     // held while it works
	why  map[int]string // why a partition takes no copy, as last logged
}

// keep stores the map on the masters that had an older one at the last probe. Those that do not
// take it are tried again at the next interval.
func (c *copies) keep(ctx context.Context, a *Agent, m *directory.Map) {
	var due []directory.Partition
	for _, p := range m.Partitions {
		if h := a.watch.of(p.Master.Addr); h.seen && h.report.Copy < m.Epoch && !p.ReadOnly {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return
	}
	text, err := m.Pack()
	if err != nil {
		a.cfg.Logger.ErrorContext(ctx, "the map cannot be copied", "error", err)
		return
	}
	why := map[int]string{}
	var mu sync.Mutex
	var storing sync.WaitGroup
	for _, p := range due {
		storing.Go(func() {
			brief, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			err := a.servers.Keep(brief, p.Master.Addr, m.Fleet, p.ID, members.Copy{Epoch: m.Epoch, Text: text})
			if err == nil || ctx.Err() != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if why[p.ID] = err.Error(); why[p.ID] != c.why[p.ID] {
				a.cfg.Logger.WarnContext(ctx, "a master takes no copy of the map: without copies a lost directory cannot be recovered",
					"partition", p.ID, "addr", p.Master.Addr, "error", err)
			}
		})
	}
	storing.Wait()
	c.why = why
}
