package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// replaceable reports whether the map has a spare that can replace any member.
func (w *world) replaceable() bool {
	return w.settings.ReplaceAfter > 0 && slices.ContainsFunc(w.dir.m.Spares, func(m directory.Member) bool {
		s := w.server(m.Addr)
		return !s.down && !s.master && s.identity == ""
	})
}

// TestSpares has spares replace members that die, while all that can goes wrong.
func TestSpares(t *testing.T) {
	t.Parallel()
	forSeeds(t, 100, func(seed uint64) schedule {
		s := random(seed)
		s.parts, s.spares, s.faults = 1, 2, 2*s.faults
		s.settings.ReplaceAfter = time.Second
		s.leaders = seed%5 == 0
		return s
	})
}

// TestDeadMembersAreReplaced has members die for good.
func TestDeadMembersAreReplaced(t *testing.T) {
	t.Parallel()
	dies := func(w *world, n int) {
		w.with(func() {
			w.servers[n].die(false)
			w.servers[n].gone = true
		})
	}
	for name, tc := range map[string]struct {
		script func(w *world)
		want   []string // members at the end
		spares int      // in the map
	}{
		"a replica":  {func(w *world) { dies(w, 1) }, []string{"a0:6379", "s0-0:6379"}, 1},
		"the master": {func(w *world) { dies(w, 0) }, []string{"b0:6379", "s0-0:6379"}, 1},
		"one after the other": {func(w *world) {
			dies(w, 0)
			time.Sleep(20 * time.Second)
			dies(w, 1)
		}, []string{"s0-0:6379", "s1-0:6379"}, 0},
		"a spare is dead": {func(w *world) {
			dies(w, 2)
			dies(w, 1)
		}, []string{"a0:6379", "s1-0:6379"}, 1},
		"a spare dies before it has joined": {func(w *world) {
			dies(w, 1)
			for {
				time.Sleep(10 * time.Millisecond)
				begun := false
				w.with(func() { begun = w.dir.m.Partitions[0].Task != nil })
				if begun {
					break
				}
			}
			dies(w, 2)
		}, []string{"a0:6379", "s1-0:6379"}, 1},
		"it is back in time": {func(w *world) {
			w.with(func() { w.servers[1].die(false) })
			time.Sleep(1500 * time.Millisecond)
			w.with(func() { w.servers[1].rise(0, true) })
		}, []string{"a0:6379", "b0:6379"}, 2},
	} {
		for _, store := range stores {
			t.Run(name+", "+string(store), func(t *testing.T) {
				t.Parallel()
				w := run(t, schedule{
					seed: 2, store: store, replicas: 1, parts: 1, spares: 2, every: 200 * time.Millisecond,
					settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, Confirmed: lenient, ReplaceAfter: 3 * time.Second},
					script: func(w *world) {
						tc.script(w)
						time.Sleep(20 * time.Second)
					},
				})
				var have []string
				for _, m := range w.dir.m.Partitions[0].Members() {
					have = append(have, m.Addr)
				}
				slices.Sort(have)
				if len(w.wrong) > 0 || !slices.Equal(have, tc.want) || len(w.dir.m.Spares) != tc.spares {
					t.Errorf("members %v and %d spares, want %v and %d; wrong: %q\n%s", have, len(w.dir.m.Spares), tc.want, tc.spares, w.wrong, w.history())
				}
			})
		}
	}
}

// TestEveryStepOfAReplacement kills and stops the leading agent at each of its calls while a spare replaces a dead member.
func TestEveryStepOfAReplacement(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			everyStep(t, func(w *world) {
				w.with(func() {
					w.servers[2].die(false)
					w.servers[2].gone = true
				})
				time.Sleep(6 * time.Second)
			}, 32, schedule{
				seed: 2, store: store, replicas: 2, parts: 1, spares: 1, every: 300 * time.Millisecond, confirmed: 1,
				settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, ReplaceAfter: 2 * time.Second},
			})
		})
	}
}
