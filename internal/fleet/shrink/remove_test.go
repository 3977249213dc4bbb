package shrink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/redistest"
)

// TestRemove: a partition that is needed is refused; one that is not leaves the fleet, and its
// server can join again.
func TestRemove(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2)
	ctx, f := t.Context(), tf.open(tf.dir)
	mover := tf.mover(f)
	written := ledger{}
	for i := range 20 {
		must(t, written.write(ctx, f, fmt.Sprint("tag", i)))
	}
	refused := func(partition int, want error, says string) {
		t.Helper()
		before := tf.present().Epoch
		_, err := Remove(ctx, f, tf.dir, mover, partition, Config{Option: slowly})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("Remove = %v, want %v that says %q", err, want, says)
		}
		if now := tf.present().Epoch; now != before {
			t.Errorf("the map has epoch %d, want %d as before", now, before)
		}
	}
	refused(2, millrace.ErrBadArgument, "no partition 2")
	refused(0, ErrNeeded, "highest number")
	refused(1, ErrNeeded, "takes new tags")
	must(t, rebalance.Close(ctx, tf.dir, 1))
	refused(1, ErrNeeded, "tags")
	tf.retire(mover, 1)
	for _, tc := range []struct {
		says   string
		change func(m *directory.Map)
	}{
		{"partitions are being added", func(m *directory.Map) { m.Floor = m.Epoch + 1 }},
		{"members of partition 1 are being changed", func(m *directory.Map) { m.Partitions[1].Task = &directory.Task{} }},
		{"members of partition 1 are being changed", func(m *directory.Map) { m.Partitions[1].Leaving = &directory.Member{} }},
	} {
		m := tf.present().Clone()
		must(t, Check(ctx, f, m, 1))
		tc.change(m)
		if err := Check(ctx, f, m, 1); !errors.Is(err, ErrNeeded) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("Check = %v, want ErrNeeded that says %q", err, tc.says)
		}
	}
	c := f.Partitions()[1]
	must(t, c.Do(ctx, c.B().Set().Key("counter").Value("1").Build()).Error())
	refused(1, ErrNeeded, `"counter"`)
	must(t, c.Do(ctx, c.B().Del().Key("counter").Build()).Error())
	must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
	refused(1, ErrNeeded, "has lost")
	must(t, c.Do(ctx, c.B().Del().Key(members.RestoredKey).Build()).Error())

	var steps []string
	m, err := Remove(ctx, f, tf.dir, mover, 1, Config{Option: slowly, Progress: func(step string) { steps = append(steps, step) }})
	must(t, err)
	if len(m.Partitions) != 1 || m.Removing() != nil || len(steps) < 6 {
		t.Errorf("the map is %+v after the steps %q", m, steps)
	}
	tf.knows(f, m.Epoch)
	tf.direct[1] = tf.masters[1].Client(t) // the fence ended the connection
	server := tf.direct[1]
	info, err := server.Do(ctx, server.B().Info().Section("replication").Build()).ToString()
	must(t, err)
	if keys := tf.keys(1, "*"); members.ParseInfo(info).Master || slices.ContainsFunc(keys, func(key string) bool { return !isFleets(key) || key == members.IdentityKey }) {
		t.Errorf("the server that left has %q and says %s, want it fenced, and without an identity", keys, info)
	}
	refused(0, ErrNeeded, "only one")
	mustFail(t, tf.mover(f), 1)

	_, err = grow.Add(ctx, tf.dir, []grow.Partition{{Master: directory.Member{Addr: tf.masters[1].Addr()}}}, onTrust)
	must(t, err)
	tf.knows(f, tf.present().Epoch)
	written.check(tf, "afterwards", map[string]*fleet.Fleet{"the present map": f})
}

// mustFail moves nothing to a partition that was removed.
func mustFail(t *testing.T, mover *rebalance.Mover, partition int) {
	t.Helper()
	_, err := mover.Move(t.Context(), partition, "tag1")
	wantError(t, err, millrace.ErrBadArgument)
}

// TestARemovalThatWasCutOffIsFinished, at each step where it can be.
func TestARemovalThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		phase directory.Phase
		cut   func(tf *testFleet, record string)
	}{
		{"yielding", directory.Yielding, nil},
		{"before masters know the floor", directory.Yielding, func(tf *testFleet, _ string) {
			m := tf.present()
			next := m.Clone()
			next.Epoch, next.Floor = m.Epoch+1, m.Epoch+2
			must(tf.t, tf.dir.Change(tf.t.Context(), m.Epoch, next))
		}},
		{"a record is locked", directory.Yielded, func(tf *testFleet, record string) {
			c := tf.direct[1]
			must(tf.t, c.Do(tf.t.Context(), c.B().Set().Key(record).Value("0 !yield").Build()).Error())
		}},
		{"a record is locked and adopted", directory.Yielded, func(tf *testFleet, record string) {
			c := tf.direct[1]
			must(tf.t, c.Do(tf.t.Context(), c.B().Set().Key(record).Value("0 !yield").Build()).Error())
			c = tf.direct[0]
			must(tf.t, c.Do(tf.t.Context(), c.B().Set().Key(record).Value("0").Build()).Error())
		}},
		{"removed", directory.Removed, nil},
		{"the server is clear", directory.Removed, func(tf *testFleet, _ string) {
			m := tf.present()
			new(Config).dismiss(tf.t.Context(), m.Fleet, m.Partitions[1])
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 2)
			ctx, f := t.Context(), tf.open(tf.dir)
			mover := tf.mover(f)
			written := ledger{}
			for i := range 10 {
				must(t, written.write(ctx, f, fmt.Sprint("tag", i)))
			}
			tf.retire(mover, 1)
			records := tf.keys(1, members.RecordKey("*"))
			if len(records) == 0 {
				t.Fatal("no tag belongs to the partition")
			}
			if tc.phase == directory.Removed {
				tf.enter(directory.Yielded)
				must(t, directory.Drain(ctx, tf.dir, tf.present().Grace()))
				must(t, new(Config).empty(ctx, f, tf.dir, mover, 1))
			}
			tf.enter(tc.phase)
			if tc.cut != nil {
				tc.cut(tf, records[0])
			}
			working, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				finisher := (&Config{Option: slowly}).finisher(f, tf.dir, mover, quiet)
				finisher.After = 50 * time.Millisecond
				_ = finisher.Run(working, tf.dir)
			}()
			redistest.Eventually(t, "the partition is gone", func() bool { return len(tf.present().Partitions) == 1 })
			stop()
			<-done
			tf.knows(f, tf.present().Epoch)
			for tag := range written {
				must(t, written.write(ctx, f, tag))
			}
			must(t, written.write(ctx, f, "new"))
			tf.direct = tf.direct[:1]
			written.check(tf, "afterwards", map[string]*fleet.Fleet{"the present map": f})
		})
	}
}
