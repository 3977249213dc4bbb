package failover_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestStories are schedules in which agents once lost writes, or never came to an
// end.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		confirmed []int
		replicas  int
		script    func(w *world)
	}{
		{"two agents promote a member and die before the map names it", []int{0, 1}, 1, func(w *world) {
			w.with(func() { w.servers[0].die(true) })
			for i := range 2 { // before the map names it
				w.eventually(func() bool { return len(w.promoters) > i })
				w.with(func() { w.promoters[i].crash() })
			}
			w.with(func() { w.servers[0].rise(empty, true) })
			time.Sleep(time.Second)
		}},
		{"a member loses its data after it was elected", []int{0, 1}, 2, func(w *world) {
			w.with(func() { w.pause(&w.servers[0].host) })
			w.eventually(func() bool { return len(w.agents[0].now.fenced) == 2 })
			w.with(func() {
				for _, s := range w.servers[1:3] {
					if s.name < "c" {
						s.die(false)
						s.rise(empty, true)
					}
				}
			})
			time.Sleep(8 * time.Second)
		}},
		{"a master was started again, and a replica with more cannot be reached", []int{1}, 1, func(w *world) {
			w.with(func() {
				w.pause(&w.servers[1].host)
				w.servers[0].die(true)
				w.servers[0].rise(fromSnapshot, true)
			})
			time.Sleep(8 * time.Second)
		}},
		{"a master was started again with another history, and a replica cannot be reached", []int{1}, 1, func(w *world) {
			w.with(func() {
				w.pause(&w.servers[1].host)
				w.servers[0].die(true)
				w.servers[0].rise(fromLog, true)
			})
			time.Sleep(8 * time.Second)
		}},
		{"the directory is restored from before a failover", []int{0, 1}, 2, func(w *world) {
			w.with(func() { w.servers[0].die(false) })
			time.Sleep(5 * time.Second)
			w.with(func() { w.servers[0].rise(fromSnapshot, true) })
			time.Sleep(5 * time.Second)
			w.with(func() { w.dir.restore(len(w.dir.stored) - 3) })
		}},
		{"the directory is restored from before two failovers, and an agent is new", []int{0, 1}, 2, func(w *world) {
			for range 2 {
				var old *server
				w.with(func() {
					old = w.server(w.dir.m.Partitions[0].Master.Addr)
					old.die(false)
				})
				time.Sleep(5 * time.Second)
				w.with(func() { old.rise(fromSnapshot, true) })
				time.Sleep(5 * time.Second)
			}
			w.with(func() {
				for _, a := range w.agents {
					a.now.crash()
				}
				w.dir.restore(len(w.dir.stored) - 3)
			})
		}},
		{"the directory is restored from before a replica was marked", []int{0}, 2, func(w *world) {
			w.with(func() { w.servers[1].die(false) })
			time.Sleep(5 * time.Second)
			w.with(func() {
				for _, a := range w.agents {
					a.now.crash()
				}
				w.dir.restore(1)
			})
		}},
		{"the new master is lost at once, and for good", []int{0}, 2, func(w *world) {
			w.with(func() { w.servers[0].die(false); w.servers[0].gone = true })
			w.eventually(func() bool { return len(w.ledger.reigns) == 3 })
			w.with(func() {
				master := w.server(w.dir.m.Partitions[0].Master.Addr)
				master.die(true)
				master.gone = true
			})
		}},
	} {
		for _, confirmed := range tc.confirmed {
			for _, store := range stores {
				t.Run(fmt.Sprintf("%s, %d confirmed, %s", tc.name, confirmed, store), func(t *testing.T) {
					t.Parallel()
					for seed := range max(1, uint64(6)/slow) {
						s := schedule{
							seed: seed, store: store, confirmed: confirmed, replicas: tc.replicas, parts: 2, every: 200 * time.Millisecond, script: tc.script,
							settings: directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 200 * time.Millisecond, Confirmed: cmp.Or(confirmed, lenient)},
						}
						w := run(t, s)
						if len(w.wrong) > 0 {
							t.Fatalf("seed %d: %s\n%s", seed, w.wrong[0], w.history())
						}
					}
				})
			}
		}
	}
}
