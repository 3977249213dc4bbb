package failover_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestNobodyIsReplacedInHaste has troubles that pass, or that are the agent's own:
// no partition becomes read-only.
func TestNobodyIsReplacedInHaste(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script func(w *world)
	}{
		{"one look is missed, again and again", func(w *world) {
			for range 10 {
				for _, s := range w.servers {
					w.with(func() { w.cutAgents(s) })
					time.Sleep(w.every)
					w.with(func() { w.mendAgents(s) })
					time.Sleep(3 * w.every)
				}
			}
		}},
		{"a master answers slowly", func(w *world) {
			w.with(func() { w.servers[0].slow = w.every / 3 })
			time.Sleep(10 * time.Second)
		}},
		{"the agents are cut off from most servers", func(w *world) {
			w.with(func() {
				for _, s := range w.servers[:4] {
					w.cutAgents(s)
				}
			})
			time.Sleep(10 * time.Second)
		}},
		{"an agent is stopped again and again", func(w *world) {
			for range 5 {
				w.with(func() { w.agents[0].now.freeze() })
				time.Sleep(4 * time.Second)
				w.with(func() { w.agents[0].now.goOn() })
				time.Sleep(time.Second)
			}
		}},
		{"the directory is away", func(w *world) {
			w.with(func() { w.dir.everyKeeper(w.pause) })
			time.Sleep(10 * time.Second)
		}},
		{"a server of the directory is away", func(w *world) {
			w.with(func() { w.pause(&w.dir.etcd.primary.host) })
			time.Sleep(10 * time.Second)
		}},
	} {
		for _, store := range stores {
			t.Run(tc.name+", "+string(store), func(t *testing.T) {
				t.Parallel()
				w := run(t, schedule{
					seed: 1, store: store, replicas: 2, parts: 2, every: 500 * time.Millisecond, script: tc.script,
					settings: directory.Settings{ViewTTL: time.Second, ReplyTimeout: 500 * time.Millisecond},
				})
				for _, m := range w.dir.stored {
					for _, p := range m.Partitions {
						if p.ReadOnly {
							w.fail("map %d: partition %d is read-only", m.Epoch, p.ID)
						}
					}
				}
				if len(w.wrong) > 0 {
					t.Errorf("%s\n%s", w.wrong[0], w.history())
				}
			})
		}
	}
}
