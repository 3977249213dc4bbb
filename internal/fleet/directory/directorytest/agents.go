package directorytest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

// long is a TTL that does not end within a test.
const long = 10 * time.Minute

// leader: one agent leads until it resigns.
func leader(t *testing.T, d directory.Directory) {
	lead := func(agent string, ttl time.Duration, want bool) {
		t.Helper()
		leads, settled, err := d.Lead(t.Context(), agent, ttl)
		if err != nil || leads != want {
			t.Errorf("Lead(%q, %v) = %t, %v, want %t", agent, ttl, leads, err, want)
		}
		if settled < time.Hour {
			t.Errorf("the directory has settled for %v, want since ever: no other server has answered", settled)
		}
	}
	lead("a", long, true)
	lead("a", long, true)
	lead("a", 2*long, true)
	lead("b", long, false)
	lead("b", 0, false)
	lead("b", long, false)
	lead("a", 0, true)
	lead("b c", long, true)
	lead("b", long, false)
	lead("a", long, false)
	lead("b c", 0, true)
	one(t, "leads", func(agent string) (bool, error) {
		leads, _, err := d.Lead(t.Context(), agent, long)
		return leads, err
	})
}

// turns: of each node one holder has the turn, until it gives it up.
func turns(t *testing.T, d directory.Directory) {
	for _, call := range []struct {
		node, holder string
		ttl          time.Duration
		want         bool
	}{
		{"n", "a b", long, true},
		{"n", "a b", long, true},
		{"n", "b", long, false},
		{"n", "b", 0, false},
		{"n", "b", long, false},
		{"other", "b", long, true},
		{"n", "a b", 0, true},
		{"n", "a b", 0, true},
		{"n", "b", long, true},
	} {
		if got, err := d.Turn(t.Context(), call.node, call.holder, call.ttl); err != nil || got != call.want {
			t.Errorf("Turn(%q, %q, %v) = %t, %v, want %t", call.node, call.holder, call.ttl, got, err, call.want)
		}
	}
	one(t, "has the turn", func(holder string) (bool, error) { return d.Turn(t.Context(), "free", holder, long) })
}

// one has several try at the same time, of which one must succeed.
func one(t *testing.T, what string, try func(name string) (bool, error)) {
	t.Helper()
	var has atomic.Int32
	var all sync.WaitGroup
	for _, name := range []string{"1", "2", "3", "4"} {
		all.Go(func() {
			ok, err := try(name)
			if err != nil {
				t.Error(err)
			}
			if ok {
				has.Add(1)
			}
		})
	}
	all.Wait()
	if has.Load() != 1 {
		t.Errorf("of four that try at the same time, %s %d", what, has.Load())
	}
}

// leasesEnd: a leader or holder that does not renew is replaced, and one that renews is
// not.
func leasesEnd(t *testing.T, d directory.Directory) {
	const short = time.Second
	lead := func(agent string) bool {
		t.Helper()
		leads, _, err := d.Lead(t.Context(), agent, short)
		if err != nil {
			t.Fatal(err)
		}
		return leads
	}
	turn := func(node, holder string, ttl time.Duration) bool {
		t.Helper()
		has, err := d.Turn(t.Context(), node, holder, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	lead("a")
	turn("n", "a", short)
	turn("kept", "a", short)
	if !turn("kept", "a", long) {
		t.Error("a holder cannot renew its turn for a longer time")
	}
	redistest.Eventually(t, "another agent leads", func() bool { return lead("b") })
	redistest.Eventually(t, "another holder has the turn", func() bool { return turn("n", "b", short) })
	if turn("kept", "b", short) {
		t.Error("another holder has a turn that was renewed")
	}
}

// moves: what was begun and not finished is adopted, once, and while no other run goes on.
func moves(t *testing.T, d directory.Directory) {
	moving := func(run string, ttl time.Duration) {
		t.Helper()
		if err := d.Moving(t.Context(), run, ttl); err != nil {
			t.Fatal(err)
		}
	}
	adopts := func(run string) bool {
		t.Helper()
		adopted, err := d.Adopt(t.Context(), run, long)
		if err != nil {
			t.Fatal(err)
		}
		return adopted
	}
	never := func(what string) {
		t.Helper()
		if adopts("agent") {
			t.Errorf("adopted %s", what)
		}
	}
	never("what does not exist")
	moving("a", long)
	moving("a", long)
	never("a run that goes on")
	moving("a", 0)
	never("a run that has finished")

	// Two are cut off, and another one goes on.
	moving("b", long)
	moving("c", time.Millisecond)
	moving("d", long)
	moving("d", time.Millisecond) // its end, of a run that did not finish
	redistest.Eventually(t, "the cut off run is adopted when the other one has ended", func() bool {
		never("a run beside one that goes on")
		moving("b", 0)
		if adopts("agent") {
			return true
		}
		moving("b", long)
		return false
	})
	if !adopts("agent") {
		t.Error("a repeat of Adopt adopts nothing")
	}
	if adopts("other") {
		t.Error("two have adopted the same runs")
	}
	moving("agent", 0)
	never("what was adopted and finished")

	// The same by the functions that agents use.
	end, err := directory.BeginMoves(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	end(false)
	redistest.Eventually(t, "the run is adopted", func() bool {
		end, adopted, err := directory.AdoptMoves(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if adopted {
			end(true)
		}
		return adopted
	})
	never("what was adopted and finished")
}

// oneAdopts: of several that adopt at the same time one does.
func oneAdopts(t *testing.T, d directory.Directory) {
	for range 3 {
		if err := d.Moving(t.Context(), "cut off", time.Millisecond); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var runs []string
		redistest.Eventually(t, "a run is adopted", func() bool {
			var all sync.WaitGroup
			for _, run := range []string{"1", "2", "3", "4"} {
				all.Go(func() {
					adopted, err := d.Adopt(t.Context(), run, long)
					if err != nil {
						t.Error(err)
					}
					if adopted {
						mu.Lock()
						runs = append(runs, run)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			return len(runs) > 0 || t.Failed()
		})
		if len(runs) != 1 {
			t.Fatalf("%q have adopted the same run", runs)
		}
		if err := d.Moving(t.Context(), runs[0], 0); err != nil {
			t.Fatal(err)
		}
	}
}
