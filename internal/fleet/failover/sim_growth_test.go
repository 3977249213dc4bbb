package failover_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// newPartition makes the servers of a new partition, which serve, and returns it as a map has it.
func (w *world) newPartition(id int, floor int64) directory.Partition {
	p := directory.Partition{ID: id, Epoch: 1, Phase: directory.Open}
	var master *server
	for j := range w.replicas + 1 {
		one := &server{host: w.newHost(fmt.Sprintf("%c%d:6379", 'a'+j, id)), w: w, partition: id}
		one.identity, one.floor = one.belongs(), floor
		one.lag = w.quickly(one)
		w.add(one)
		member := directory.Member{Addr: one.name, Node: fmt.Sprintf("node%d", (id+j)%3), Run: one.run()}
		if j == 0 {
			master, p.Master = one, member
			one.master, one.history = true, one.newHistory()
			if w.seed%3 > 0 {
				p.History = one.history
			}
		} else {
			one.target, one.link, one.history = master, linked, master.history
			one.pass, one.serves = master.run(), true
			p.Replicas = append(p.Replicas, member)
		}
		one.disk = one.data
	}
	return p
}

// growOnce announces one more partition, as a command does, unless that was done.
func growOnce(w *world) {
	m, k := w.dir.m, w.dir.etcd.primary
	if len(m.Partitions) > w.parts || k.down || k.paused || w.dir.behind() || w.dir.decides(k) != nil {
		return
	}
	next := m.Next()
	present, err := m.Ring()
	if err == nil {
		var grown *ring.Ring
		if grown, err = present.Add(1); err == nil {
			next.Points = grown.Points()
		}
	}
	if err != nil {
		w.fail("the simulation is broken: %v", err)
		return
	}
	p := w.newPartition(w.parts, m.Floor)
	p.Epoch, p.Phase, p.Generation = next.Epoch, directory.LookUp, 1
	next.Partitions = append(next.Partitions, p)
	w.ledger.reigns = append(w.ledger.reigns, reign{p.ID, p.Epoch, w.server(p.Master.Addr)})
	w.say("a command adds partition %d", p.ID)
	if err := w.dir.change(m.Epoch, next); err != nil {
		w.fail("the simulation is broken: %v", err)
	}
}

// checkGrowth is called before the directory stores a map. When partitions are opened, no client
// uses a map that does not name them, none can place a tag by an older map, and each copy of the
// map names them.
func (w *world) checkGrowth(old, next *directory.Map) {
	if !old.Adding() || next.Adding() {
		return
	}
	for _, c := range w.clients {
		if c.m != nil && len(c.m.Partitions) < len(next.Partitions) && time.Since(c.confirmed) < w.settings.ViewTTL {
			w.fail("G: partitions are opened, and %s uses a map of epoch %d without them", c.name, c.m.Epoch)
		}
	}
	for _, p := range next.Partitions {
		s := w.server(p.Master.Addr)
		if s.master && !s.amnesic && s.floor <= old.Epoch {
			w.fail("G: partitions are opened, and tags are placed on %s by a map of epoch %d", s.name, s.floor)
		}
		if !s.amnesic && (s.held == nil || len(s.held.Partitions) < len(next.Partitions)) {
			w.fail("G: partitions are opened, and the copy of %s does not name them", s.name)
		}
	}
}

// TestGrowth adds a partition, while all that can goes wrong.
func TestGrowth(t *testing.T) {
	t.Parallel()
	forSeeds(t, 60, func(seed uint64) schedule {
		s := random(seed)
		s.faults *= 2
		s.only = slices.Concat(faults(), slices.Repeat([]fault{growOnce}, 20))
		s.leaders = seed%5 == 0
		return s
	})
}

// TestEveryStepOfGrowth kills and stops the leading agent at each of its calls while a partition is added.
func TestEveryStepOfGrowth(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			everyStep(t, func(w *world) {
				w.with(func() {
					w.servers[2].lag = w.quickly(w.servers[2])
					growOnce(w)
				})
				time.Sleep(4 * time.Second)
			}, 32, schedule{
				seed: 2, store: store, replicas: 2, parts: 1, every: 300 * time.Millisecond, confirmed: 1,
				settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond},
			})
		})
	}
}
