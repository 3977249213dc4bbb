package rebalance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/test/redistest"
)

// wantAt fails the test unless a tag can be written at once and is where it was, with
// n keys.
func (tf *testFleet) wantAt(tag string, home, n int) {
	tf.t.Helper()
	f := tf.open()
	c := f.Client()
	if err := c.Do(tf.t.Context(), c.B().Set().Key("{"+tag+"}:0").Value("again").Build()).Error(); err != nil {
		tf.t.Errorf("a write afterwards = %v", err)
	}
	tf.wantHome(f, tag, home)
	if got := len(tf.keys(home)); got != n {
		tf.t.Errorf("partition %d has %d keys, want %d", home, got, n)
	}
}

// TestFullPartition: tags that do not fit stay where they are, and tags that fit are moved.
func TestFullPartition(t *testing.T) {
	t.Parallel()
	settings := calm
	settings.MaxFill = 60
	tf := startFleetAt(t, settings, nil, redistest.Options{}, redistest.Options{MaxMemory: "6mb"})
	m, ctx := impatient(tf.mover(Config{})), t.Context()
	c := tf.open().Client()
	small, large := tf.tagOf(0, "a-small"), tf.tagOf(0, "b-large")
	must(t, set(ctx, c, "{"+small+"}", "x"))
	for i := range 40 {
		must(t, set(ctx, c, fmt.Sprintf("{%s}:%d", large, i), strings.Repeat("x", 200_000)))
	}
	report, err := m.Move(ctx, 1, small, large)
	wantError(t, err, millrace.ErrFull)
	if millrace.Hint(err) == "" || report.Tags != 1 {
		t.Errorf("Move = %+v, hint %q", report, millrace.Hint(err))
	}
	tf.wantHome(tf.open(), small, 1)
	tf.wantAt(large, 0, 40)
	if got := tf.keys(1); len(got) != 1 {
		t.Errorf("the full partition has %v, want only what was moved", got)
	}

	// A partition that is filled as far as new tags may fill it is not even tried.
	filler := tf.tagOf(1, "filler")
	for i := range 10 {
		must(t, set(ctx, c, fmt.Sprintf("{%s}:%d", filler, i), strings.Repeat("x", 250_000)))
	}
	k := &killer{fails: func(int) bool { return false }}
	_, err = interrupt(m, k.before).Move(ctx, 1, large)
	wantError(t, err, millrace.ErrFull)
	for _, step := range k.steps {
		if step == "freeze" {
			t.Error("writers had to wait for a move to a full partition")
		}
	}
	tf.wantAt(large, 0, 40)
}

// TestPartitionDies in the middle of a move, and comes back.
func TestPartitionDies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		which int
		step  string
	}{
		{"the new one, while it is filled", 1, "restore"},
		{"the new one, at the last step", 1, "arrive"},
		{"the new one, when all is there", 1, "settle"},
		{"the old one, while it is read", 0, "dump"},
		{"the old one, before it knows", 0, "flip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			always := redistest.Options{AOF: true}
			settings := calm
			settings.ViewTTL = 500 * time.Millisecond // how patient steps are
			tf := startFleetAt(t, settings, nil, always, always)
			ctx, tag := t.Context(), tf.place(0, 0, "t")
			killed := false
			m := interrupt(tf.mover(Config{}), func(step, _ string) error {
				if step == tc.step && !killed {
					killed = true
					tf.masters[tc.which].Kill()
				}
				return nil
			})
			if _, err := m.Move(ctx, 1, tag); err == nil {
				t.Error("Move succeeded")
			}
			if tc.step == "restore" {
				f := tf.open()
				c := f.Client()
				if err := c.Do(ctx, c.B().Set().Key("{"+tag+"}:0").Value("x").Build()).Error(); err != nil {
					t.Errorf("a write at the old place while the new one is down = %v", err)
				}
			}
			tf.masters[tc.which].Restart()
			tf.direct[tc.which] = tf.masters[tc.which].Client(t)
			_, err := impatient(tf.mover(Config{})).Move(ctx, 1, tag)
			if !errors.Is(err, fleet.ErrReadOnly) && !errors.Is(err, fleet.ErrUnavailable) {
				t.Errorf("a move before the partition was examined = %v, want %v or %v", err, fleet.ErrReadOnly, fleet.ErrUnavailable)
			}
			tf.examined(tc.which)
			_, err = impatient(tf.mover(Config{})).Move(ctx, 1, tag)
			must(t, err)
			tf.wantAt(tag, 1, 3)
		})
	}
}

// examined has the map say that the master of a partition leads in the run that it is in.
func (tf *testFleet) examined(partition int) {
	tf.t.Helper()
	now, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	next := now.Clone()
	next.Epoch++
	next.Partitions[partition].Epoch = next.Epoch
	next.Partitions[partition].Master.Run = tf.masters[partition].Info("server")["run_id"]
	must(tf.t, tf.dir.Change(tf.t.Context(), now.Epoch, next))
}

// TestTwoAtOnce: of two calls that move the same tags, to different partitions or to
// the same one, each tag has one place in the end, and all of its keys are there.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 8
	if soak {
		rounds = 200
	}
	for _, places := range [][2]int{{1, 2}, {1, 1}} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{})
			ctx := t.Context()
			movers := []*Mover{impatient(tf.mover(Config{Batch: 2})), impatient(tf.mover(Config{Batch: 3}))}
			var tags []string
			for i := range 6 {
				tag := tf.tagOf(0, fmt.Sprint("t", i, "-"))
				tags = append(tags, tag)
				for j := range 3 {
					must(t, set(ctx, tf.open().Client(), fmt.Sprintf("{%s}:%d", tag, j), tag))
				}
			}
			for range rounds {
				var moving sync.WaitGroup
				for i, m := range movers {
					moving.Go(func() { _, _ = m.Move(ctx, places[i], tags...) })
				}
				moving.Wait()
				for id := range 3 {
					_, err := movers[0].resume(ctx, id)
					must(t, err)
				}
				f := tf.open()
				for _, tag := range tags {
					l, err := f.Locate(ctx, tag)
					must(t, err)
					tf.wantHome(f, tag, l.Partition)
					for j := range 3 {
						if got, err := get(ctx, f.Client(), fmt.Sprintf("{%s}:%d", tag, j)); got != tag || err != nil {
							t.Errorf("%s:%d = %q, %v", tag, j, got, err)
						}
					}
				}
				_, err := movers[0].Move(ctx, 0, tags...)
				must(t, err)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestCancelled: when the caller goes, writers wait no longer, and the same call finishes
// the move.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"leave", "claim", "freeze", "scan", "restore", "arrive", "flip", "settle"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tag := tf.place(0, 0, "t")
			m := interrupt(tf.mover(Config{}), func(at, _ string) error {
				if at == step {
					cancel()
				}
				return nil
			})
			report, err := m.Move(ctx, 1, tag)
			finished := step == "arrive" || step == "flip" || step == "settle"
			if finished != (report.Tags == 1) || !finished && err == nil {
				t.Errorf("Move that is cancelled at %q = %+v, %v", step, report, err)
			}
			tf.wantWrite("cancelled at "+step, tag)
			if !finished {
				l, err := tf.open().Locate(t.Context(), tag)
				if err != nil || l.Partition != 0 {
					t.Errorf("cancelled at %q: the tag is in partition %d, %v, want 0", step, l.Partition, err)
				}
				_, err = impatient(tf.mover(Config{})).Move(t.Context(), 1, tag)
				must(t, err)
			}
			tf.wantAt(tag, 1, 3)
		})
	}
}

// TestRate: a call keeps to an average of bytes a second, and rests only while no writer
// waits.
func TestRate(t *testing.T) {
	t.Parallel()
	tf := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{})
	m, ctx := impatient(tf.mover(Config{Batch: 1, Rate: 200_000})), t.Context()
	var tags []string
	for i := range 4 {
		tag := tf.tagOf(0, fmt.Sprint("t", i, "-"))
		tags = append(tags, tag)
		c := tf.direct[0]
		must(t, set(ctx, tf.open().Client(), "{"+tag+"}", "x"))
		must(t, c.Do(ctx, c.B().Eval().Script("local t = {} for i = 1, 100000 do t[i] = string.char(33 + (i * i * 7 + i * tonumber(ARGV[1])) % 90) end return redis.call('SET', KEYS[1], table.concat(t))").
			Numkeys(1).Key("{"+tag+"}").Arg(fmt.Sprint(i)).Build()).Error())
	}
	c := tf.direct[0]
	must(t, c.Do(ctx, c.B().Arbitrary("CONFIG", "SET", "rdbcompression", "no").Build()).Error())
	report, err := m.Move(ctx, 1, tags...)
	must(t, err)
	// If a rest were a part of a pause, each of the four would take half a second.
	least := time.Duration(float64(report.Bytes) / 200_000 * float64(time.Second))
	if report.Bytes < 400_000 || report.Took < least || report.MedianPause > least/4 {
		t.Errorf("Move = %+v, want it to take at least %v with pauses below %v", report, least, least/4)
	}
}
