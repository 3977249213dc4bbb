package shrink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TestHomes: tags are created, moved, forgotten and created again at random, and then
// partitions are removed step by step and added again. At each step a client with the present
// map and one with the map before create and write tags. Each tag has one home, and both find
// all that was written.
func TestHomes(t *testing.T) {
	t.Parallel()
	soak, seeds := os.Getenv("MILLRACE_SOAK") != "", 1
	if soak {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			w.live(2)
			w.remove(3)
			if !soak {
				return
			}
			w.live(1)
			w.remove(2)
			w.add(1) // gets the number 2 again
			w.live(1)
		})
	}
}

// world is a fleet of four partitions with two clients, and what they have written.
type world struct {
	*testFleet

	rng    *rand.Rand
	young  *fleet.Fleet // has the present map
	old    *fleet.Fleet // has the one before
	pin    *pinned      // its directory
	ledger ledger
	names  int // of tags so far
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	tf := startFleet(t, 1)
	tf.add(3)
	w := &world{testFleet: tf, rng: rand.New(rand.NewPCG(seed, 7)), pin: &pinned{Directory: tf.dir}, ledger: ledger{}}
	w.pin.m.Store(tf.present())
	w.young, w.old = tf.open(tf.dir), tf.open(w.pin)
	w.create("first", w.young, 40)
	return w
}

// add adds partitions, and lets both clients know.
func (w *world) add(n int) {
	w.t.Helper()
	last := len(w.present().Partitions)
	w.direct, w.masters = w.direct[:last], w.masters[:last]
	w.testFleet.add(n)
	w.catchUp()
}

// catchUp gives both clients the present map.
func (w *world) catchUp() {
	w.t.Helper()
	m := w.present()
	w.pin.m.Store(m)
	w.knows(w.young, m.Epoch)
	w.knows(w.old, m.Epoch)
}

// create writes tags that there were not.
func (w *world) create(prefix string, f *fleet.Fleet, n int) {
	w.t.Helper()
	for range n {
		w.names++
		must(w.t, w.ledger.write(w.t.Context(), f, fmt.Sprint(prefix, w.names)))
	}
}

// some returns about every n-th tag.
func (w *world) some(n int) (some []string) {
	for _, tag := range slices.Sorted(maps.Keys(w.ledger)) {
		if w.rng.IntN(n) == 0 {
			some = append(some, tag)
		}
	}
	return some
}

// written returns those tags that are not forgotten.
func (w *world) written(tags []string) []string {
	return slices.DeleteFunc(tags, func(tag string) bool { return len(w.ledger[tag]) == 0 })
}

// live moves tags, forgets some, and creates some of these again.
func (w *world) live(rounds int) {
	w.t.Helper()
	ctx, mover := w.t.Context(), w.mover(w.young)
	for range rounds {
		var open []int
		for _, p := range w.present().Partitions {
			if p.Phase == directory.Open {
				open = append(open, p.ID)
			}
		}
		_, err := mover.Move(ctx, open[w.rng.IntN(len(open))], w.written(w.some(3))...)
		must(w.t, err)
		forgotten := w.some(4)
		c := w.young.Client()
		for _, tag := range forgotten {
			must(w.t, c.Do(ctx, c.B().Del().Key("{"+tag+"}").Build()).Error())
		}
		must(w.t, w.young.Forget(ctx, forgotten...))
		for _, tag := range forgotten {
			if w.ledger[tag] = nil; w.rng.IntN(2) == 0 {
				must(w.t, w.ledger.write(ctx, w.young, tag))
			}
		}
	}
}

// act has both clients create tags, create some again that were forgotten, and write others.
// While the floor is above its map, the old one may place nothing, and does not look for what
// the young one has placed.
func (w *world) act(when string, oldPlaces bool) {
	w.t.Helper()
	ctx := w.t.Context()
	known := w.written(slices.Collect(maps.Keys(w.ledger)))
	w.create("young", w.young, 4)
	if oldPlaces {
		w.create("old", w.old, 4)
	} else {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		if err := w.ledger.write(short, w.old, fmt.Sprint("refused", w.names)); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("%s: a client with the former map places a tag, %v", when, err)
		}
		cancel()
	}
	for _, tag := range w.some(6) {
		clients := []*fleet.Fleet{w.young, w.old}
		if w.rng.IntN(2) == 0 {
			clients[0], clients[1] = w.old, w.young
		}
		for _, f := range clients {
			if f == w.young || oldPlaces || slices.Contains(known, tag) {
				must(w.t, w.ledger.write(ctx, f, tag))
			}
		}
	}
	w.ledger.check(w.testFleet, when, map[string]*fleet.Fleet{"the present map": w.young, "the former map": w.old})
}

// step publishes a map of which the old client does not hear. Both know the former one.
func (w *world) step(publish func(m *directory.Map) error) {
	w.t.Helper()
	w.catchUp()
	must(w.t, publish(w.present()))
	w.knows(w.young, w.present().Epoch)
}

// remove removes the last partition, step by step.
func (w *world) remove(last int) {
	w.t.Helper()
	ctx, mover := w.t.Context(), w.mover(w.young)
	w.retire(mover, last)
	w.catchUp()
	phase := func(phase directory.Phase) func(m *directory.Map) error {
		return func(*directory.Map) error {
			w.enter(phase)
			return nil
		}
	}
	w.step(phase(directory.Yielding))
	w.act("yielding", true)

	w.step(func(*directory.Map) error {
		cfg := onTrust
		_, err := cfg.Switch(ctx, w.dir, func(m *directory.Map) { m.Removing().Phase = directory.Yielded })
		return err
	})
	w.act("yielded", false)

	w.catchUp()
	writing, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	busy := ledger{}
	others.Go(func() {
		f := w.open(w.dir)
		for i := 0; writing.Err() == nil; i++ {
			if err := busy.write(ctx, f, fmt.Sprint("busy", i%20)); err != nil {
				w.t.Errorf("a write during the handover: %v", err)
			}
		}
	})
	cfg := &Config{Option: slowly}
	must(w.t, cfg.empty(ctx, w.young, w.dir, mover, last))
	stop()
	others.Wait()
	for tag, written := range busy {
		w.ledger[tag] = append(w.ledger[tag], written...)
	}
	if left := w.keys(last, members.RecordKey("*")); len(left) != 0 {
		w.t.Errorf("partition %d has the records %q, want none", last, left)
	}
	w.act("handed over", true)

	w.step(phase(directory.Removed))
	w.act("removed", true)
	w.catchUp()
	cfg.dismiss(ctx, w.present().Fleet, w.present().Partitions[last])
	m, err := cfg.complete(ctx, w.young, w.dir, mover)
	must(w.t, err)
	if len(m.Partitions) != last {
		w.t.Errorf("the map has %d partitions, want %d", len(m.Partitions), last)
	}
	w.catchUp()
	w.direct = w.direct[:last]
	w.act("gone", true)
}
