package directorytest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// long is a TTL that does not end within a test.
const long = 10 * time.Minute

// leader: one agent leads until it resigns.
func leader(t *testing.T, d *directory.Directory) {
	lead := func(agent string, ttl time.Duration, want bool) {
		t.Helper()
		leads, err := d.Lead(t.Context(), agent, ttl)
		if err != nil || leads != want {
			t.Errorf("Lead(%q, %v) = %t, %v, want %t", agent, ttl, leads, err, want)
		}
	}
	by := func(want string) {
		t.Helper()
		if got, err := d.Leader(t.Context()); got != want || err != nil {
			t.Errorf("Leader = %q, %v, want %q", got, err, want)
		}
	}
	by("")
	lead("a", long, true)
	lead("a", long, true)
	lead("a", 2*long, true)
	by("a")
	lead("b", long, false)
	lead("b", 0, false)
	lead("b", long, false)
	by("a")
	lead("a", 0, true)
	by("")
	lead("b c", long, true)
	by("b c")
	lead("b", long, false)
	lead("a", long, false)
	lead("b c", 0, true)
	one(t, "leads", func(agent string) (bool, error) { return d.Lead(t.Context(), agent, long) })
}

// turns: of each node one holder has the turn, until it gives it up.
func turns(t *testing.T, d *directory.Directory) {
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
func leasesEnd(t *testing.T, d *directory.Directory) {
	const short = time.Second
	lead := func(agent string) bool {
		t.Helper()
		leads, err := d.Lead(t.Context(), agent, short)
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

// moves: runs that were cut off are adopted, once, and while no other run goes on.
func moves(t *testing.T, d *directory.Directory) {
	begin := func() (end func(finished bool)) {
		t.Helper()
		end, err := directory.BeginMoves(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	adopt := func(when string, want bool) (end func(finished bool)) {
		t.Helper()
		end, adopted, err := directory.AdoptMoves(t.Context(), d)
		if err != nil || adopted != want {
			t.Fatalf("AdoptMoves %s = %t, %v, want %t", when, adopted, err, want)
		}
		return end
	}
	adopt("without any run", false)
	a := begin()
	adopt("of a run that goes on", false)
	a(true)
	adopt("of a run that has finished", false)

	// Two are cut off, and another one goes on.
	b, c, e := begin(), begin(), begin()
	c(false)
	e(false)
	adopt("beside a run that goes on", false)
	b(true)
	adopted := adopt("of two runs that were cut off", true)
	adopt("of what was adopted", false)
	adopted(false)
	adopted = adopt("of what was adopted and cut off again", true)
	adopted(true)
	adopt("of what was adopted and finished", false)

	// One that was stopped for longer than it holds its name, is adopted, and goes on.
	a = begin()
	listed, err := d.Store.Get(t.Context(), directory.Present, "moves")
	if err != nil {
		t.Fatal(err)
	}
	run := listed[0].Text
	if by, err := d.Store.Hold(t.Context(), "run/"+run, run, 0); by != "" || err != nil {
		t.Fatalf("Hold(%q, %q, 0) = %q, %v, want that it was given up", "run/"+run, run, by, err)
	}
	adopt("of a run that was stopped", true)(true)
	a(false)
	adopt("of what the run that was stopped has left", true)(true)
	adopt("of what was finished", false)

	// Entries that have no run are finished in the same way.
	for range 2 {
		if err := d.Unfinished(t.Context(), "left"); err != nil {
			t.Fatal(err)
		}
	}
	adopt("of what was left", true)(true)
	adopt("of what was left and finished", false)
}

// oneAdopts: of several that adopt at the same time one does.
func oneAdopts(t *testing.T, d *directory.Directory) {
	for range 3 {
		for _, run := range []string{"x", "y", "z"} {
			if err := d.Unfinished(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var ends []func(bool)
		redistest.Eventually(t, "the runs are adopted", func() bool {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					end, adopted, err := directory.AdoptMoves(t.Context(), d)
					if err != nil {
						t.Error(err)
					}
					if adopted {
						mu.Lock()
						ends = append(ends, end)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			return len(ends) > 0 || t.Failed()
		})
		if len(ends) != 1 {
			t.Fatalf("%d have adopted the same runs, want 1", len(ends))
		}
		ends[0](true)
	}
}
