package failover

import (
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// growth is the leading agent's memory of an addition of partitions. Another leader begins with none.
type growth struct {
	announced int64     // the epoch of the newest partition that clients only look up
	since     time.Time // when this agent saw that first
	raised    int64     // the epoch of the map whose floor all masters have
}

// Actions for all partitions together.
type (
	// changeMap changes the map if that still has the same epoch.
	changeMap struct {
		edit func(next *directory.Map)
		of   int    // the partition that it concerns, -1 for all
		say  string // in the log of the directory, when it is done; empty for nothing
	}

	raise struct{} // the floor of all masters to that of the map
)

func (changeMap) isAction() {}
func (raise) isAction()     {}

// announced returns the epoch of the newest partition that clients only look up, 0 for none.
func announced(m *directory.Map) (epoch int64) {
	for _, p := range m.Partitions {
		if p.Phase == directory.LookUp {
			epoch = max(epoch, p.Epoch)
		}
	}
	return epoch
}

// grow returns the next step of an addition of partitions, as step does for one partition:
//
//	LookUp   clients look for tags in the new partitions, and place none there
//	  │      wait until no client uses an older map, and all masters have a copy of a map that
//	  │      names the new partitions: should the directory be lost, each copy names all
//	  │      partitions that have tags
//	  │      the map has a floor, the next epoch; then all masters have it
//	Open     new tags may go to the new partitions
//
// Between the maps of the last two lines a tag has two owners, and must not be placed on both:
// by the floor, no client places a tag by the older one. The directory has the floor before the
// masters do, for agents that replace a master. If the map changes in between, the floor is
// raised once more, above that.
func grow(m *directory.Map, seen func(addr string) health, g growth, now time.Time) action {
	if !m.Adding() {
		return nil
	}
	if rest := m.Grace() - now.Sub(g.since); rest > 0 {
		return look{rest}
	}
	for _, p := range m.Partitions {
		switch h := seen(p.Master.Addr); {
		case p.ReadOnly:
			return waitsFor("partition %d has no master", p.ID)
		case !h.seen || !h.report.Master || h.report.Run != p.Master.Run || h.report.Identity != members.Identity(m.Fleet, p.ID):
			return waitsFor("%s, the master of partition %d, does not answer", p.Master.Addr, p.ID)
		case h.report.Copy < g.announced:
			return waitsFor("%s, the master of partition %d, has no copy of the map", p.Master.Addr, p.ID)
		}
	}
	switch {
	case m.Floor != m.Epoch+1:
		return changeMap{of: -1, edit: func(next *directory.Map) { next.Floor = next.Epoch + 1 }}
	case g.raised != m.Epoch:
		return raise{}
	}
	return changeMap{of: -1, say: "the new partitions take tags", edit: func(next *directory.Map) {
		for i := range next.Partitions {
			if p := &next.Partitions[i]; p.Phase == directory.LookUp {
				p.Phase = directory.Open
			}
		}
	}}
}
