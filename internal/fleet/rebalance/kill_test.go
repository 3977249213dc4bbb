package rebalance

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// soak is whether there is time for every combination.
var soak = os.Getenv("MILLRACE_SOAK") != ""

var errKilled = errors.New("killed by the test")

// interrupt has a mover call before with each step that it is about to do; an error ends that
// step before it is done. Such a mover does not wait for clients: there are none.
func interrupt(m *Mover, before func(step, tag string) error) *Mover {
	m.step = func(step, tag string, do func() error) error {
		if err := before(step, tag); err != nil {
			return err
		}
		if strings.HasPrefix(step, "until ") {
			return nil
		}
		return do()
	}
	return m
}

func impatient(m *Mover) *Mover {
	return interrupt(m, func(string, string) error { return nil })
}

// killer makes the steps of a mover fail.
type killer struct {
	mu    sync.Mutex
	n     int
	fails func(n int) bool
	steps []string
}

func (k *killer) before(step, _ string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	k.steps = append(k.steps, step)
	if k.fails(k.n) {
		return errKilled
	}
	return nil
}

// journeys are the ways in which tags lie before they are moved to partition 1 of
// three.
var journeys = []struct {
	name        string
	owner, from int
}{
	{"from the owner", 0, 0},
	{"to the owner", 1, 0},
	{"by way of another", 0, 2},
}

// place returns a tag that has three keys, belongs to a partition and is in another
// one.
func (tf *testFleet) place(owner, from int, name string) string {
	tf.t.Helper()
	tag := tf.tagOf(owner, name)
	f := tf.open()
	defer f.Close()
	for i := range 3 {
		must(tf.t, set(tf.t.Context(), f.Client(), fmt.Sprintf("{%s}:%d", tag, i), tag))
	}
	if owner != from {
		m, err := New(f, Config{Logger: quiet})
		must(tf.t, err)
		_, err = impatient(m).Move(tf.t.Context(), from, tag)
		must(tf.t, err)
	}
	return tag
}

// TestKilledAnywhere kills a call at each of its steps. Each recovery afterwards
// finds the tag in one place, and leaves nothing behind.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	recoveries := []struct {
		name string
		goOn func(m *Mover, tag string, from int) (home int, err error)
	}{
		{"the same call", func(m *Mover, tag string, _ int) (int, error) {
			_, err := m.Move(t.Context(), 1, tag)
			return 1, err
		}},
		{"resuming, first where it was", func(m *Mover, _ string, from int) (int, error) {
			_, first := m.resume(t.Context(), from)
			_, second := m.resume(t.Context(), 1)
			return -1, errors.Join(first, second)
		}},
		{"resuming, first where it goes", func(m *Mover, _ string, from int) (int, error) {
			_, first := m.resume(t.Context(), 1)
			_, second := m.resume(t.Context(), from)
			return -1, errors.Join(first, second)
		}},
		{"another one", func(m *Mover, tag string, from int) (int, error) {
			to := 3 - 1 - from // of the three, neither 1 nor where it is
			_, err := m.Move(t.Context(), to, tag)
			return to, err
		}},
	}
	for which, journey := range journeys {
		t.Run(journey.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
			ctx := t.Context()
			m, again := tf.mover(Config{}), impatient(tf.mover(Config{}))
			for last, n := false, 1; !last; n++ {
				for number, recovery := range recoveries {
					if !soak && n%(len(journeys)*len(recoveries)) != which*len(recoveries)+number {
						continue
					}
					tag := tf.place(journey.owner, journey.from, fmt.Sprint(journey.name, recovery.name, n, "-"))
					k := &killer{fails: func(i int) bool { return i >= n }}
					_, err := interrupt(m, k.before).Move(ctx, 1, tag)
					last = k.n < n
					if (err == nil) != last {
						t.Fatalf("Move killed at step %d of %d = %v", n, k.n, err)
					}
					where := fmt.Sprintf("killed at %q, step %d: %s", k.steps[len(k.steps)-1], n, recovery.name)
					tf.wantReads(where, tag)
					home, err := recovery.goOn(again, tag, journey.from)
					if err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					if home < 0 {
						l, err := again.f.Locate(ctx, tag)
						must(t, err)
						home = l.Partition
					}
					tf.wantHome(again.f, tag, home)
					tf.wantReads(where, tag)
					tf.wantWrite(where, tag)
					if t.Failed() {
						t.Fatalf("%s; records %q", where, tf.records(tag))
					}
				}
			}
		})
	}
}

// wantReads fails the test unless all keys that place has made can be read.
func (tf *testFleet) wantReads(where, tag string) {
	tf.t.Helper()
	user := tf.open() // one that remembers nothing
	defer user.Close()
	for i := range 3 {
		if got, err := get(tf.t.Context(), user.Client(), fmt.Sprintf("{%s}:%d", tag, i)); got != tag || err != nil {
			tf.t.Errorf("%s: a read = %q, %v", where, got, err)
		}
	}
}

// wantWrite fails the test unless a write succeeds at once.
func (tf *testFleet) wantWrite(where, tag string) {
	tf.t.Helper()
	user := tf.open()
	defer user.Close()
	c := user.Client()
	if err := c.Do(tf.t.Context(), c.B().Set().Key("{"+tag+"}:1").Value(tag).Build()).Error(); err != nil {
		tf.t.Errorf("%s: a write = %v", where, err)
	}
}

// TestHeldUpAnywhere holds a call up before each of its steps, while another one
// moves the tag, and then lets it go on. It does no harm.
func TestHeldUpAnywhere(t *testing.T) {
	t.Parallel()
	for which, journey := range journeys {
		t.Run(journey.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
			ctx := t.Context()
			m, other := tf.mover(Config{}), impatient(tf.mover(Config{}))
			third := 3 - 1 - journey.from
			meanwhile := [][]int{{third}, {1}, {third, journey.from}}
			for last, n := false, 1; !last; n++ {
				for number, places := range meanwhile {
					if !soak && n%(len(journeys)*len(meanwhile)) != which*len(meanwhile)+number {
						continue
					}
					tag := tf.place(journey.owner, journey.from, fmt.Sprint(journey.name, number, "-", n, "-"))
					k := &killer{fails: func(i int) bool { return i == n }}
					_, _ = interrupt(m, func(step, _ string) error {
						if k.before(step, "") == nil {
							return nil
						}
						for _, to := range places {
							_, err := other.Move(ctx, to, tag)
							must(t, err)
						}
						user := tf.open()
						defer user.Close()
						must(t, set(ctx, user.Client(), "{"+tag+"}:2", "new"))
						return nil
					}).Move(ctx, 1, tag)
					last = k.n < n
					where := fmt.Sprintf("held up before %q, step %d, and moved to %v", k.steps[min(n, len(k.steps))-1], n, places)
					for id := range 3 {
						_, err := other.resume(ctx, id)
						must(t, err)
					}
					l, err := other.f.Locate(ctx, tag)
					if err != nil {
						t.Fatalf("%s: %v; records %q; steps %v", where, err, tf.records(tag), k.steps)
					}
					tf.wantHome(other.f, tag, l.Partition)
					user := tf.open()
					if got, err := get(ctx, user.Client(), "{"+tag+"}:2"); err != nil || (got == "new") == last {
						t.Errorf("%s: the key is %q, %v", where, got, err)
					}
					user.Close()
					tf.wantWrite(where, tag)
					if t.Failed() {
						t.Fatalf("%s; records %q; steps %v", where, tf.records(tag), k.steps)
					}
				}
			}
		})
	}
}

// TestFailsAnywhere makes each step fail, once. Writers go on at once, and the same call
// finishes the move.
func TestFailsAnywhere(t *testing.T) {
	t.Parallel()
	for which, journey := range journeys {
		t.Run(journey.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
			m, ctx := tf.mover(Config{}), t.Context()
			for last, n := false, 1; !last; n++ {
				if !soak && n%len(journeys) != which {
					continue
				}
				tag := tf.place(journey.owner, journey.from, fmt.Sprint(journey.name, n, "-"))
				k := &killer{fails: func(i int) bool { return i == n }}
				_, err := interrupt(m, k.before).Move(ctx, 1, tag)
				last = k.n < n
				if (err == nil) != last {
					t.Fatalf("Move that fails at step %d of %d = %v", n, k.n, err)
				}
				where := fmt.Sprintf("failed at %q, step %d", k.steps[min(n, len(k.steps))-1], n)
				tf.wantWrite(where, tag)
				if _, err := impatient(m).Move(ctx, 1, tag); err != nil {
					t.Errorf("%s: Move again = %v", where, err)
				}
				tf.wantHome(m.f, tag, 1)
				tf.wantReads(where, tag)
				if t.Failed() {
					t.Fatalf("%s; records %q; steps %v", where, tf.records(tag), k.steps)
				}
			}
		})
	}
}
