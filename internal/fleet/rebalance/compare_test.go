package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// putBack moves a tag from partition 0 to 1, and then restores the earlier data of partition 0.
func (tf *testFleet) putBack(m *Mover, tag string) {
	t, ctx, server := tf.t, tf.t.Context(), tf.direct[0]
	t.Helper()
	c := tf.open().Client()
	must(t, set(ctx, c, "{"+tag+"}", "old"))
	_, err := m.Move(ctx, 1, tag)
	must(t, err)
	must(t, set(ctx, c, "{"+tag+"}", "new"))
	for key, value := range map[string]string{members.RecordKey(tag): "0", "{" + tag + "}": "old"} {
		must(t, server.Do(ctx, server.B().Set().Key(key).Value(value).Build()).Error())
	}
	must(t, server.Do(ctx, server.B().Incr().Key(members.TagsKey).Build()).Error())
}

// compare compares two partitions until nothing is left to be done.
func (tf *testFleet) compare(m *Mover, partition, with int, mark func(tags []string) error) error {
	for {
		done, err := m.Compare(tf.t.Context(), partition, with, "", mark)
		if done || err != nil {
			return err
		}
	}
}

// restoredSince is putBack, and partition 1 is silent while partition 0 is repaired.
func (tf *testFleet) restoredSince(m *Mover, tag string) {
	t, ctx := tf.t, tf.t.Context()
	t.Helper()
	tf.putBack(m, tag)
	now, err := tf.dir.Confirm(ctx, 0)
	must(t, err)
	tf.masters[1].Pause()
	n, err := Restored(ctx, slowly, now, 0, tf.masters[0].Addr())
	tf.masters[1].Resume()
	if n != 0 || err != nil {
		t.Fatalf("Restored = %d, %v, want that partition 1 does not answer", n, err)
	}
	if got, err := get(ctx, tf.open().Client(), "{"+tag+"}"); got != "old" || err != nil {
		t.Fatalf("the tag has %q, %v: this test needs the old data", got, err)
	}
}

// TestATagThatWasMovedToASilentPartition is used where it was before, until that partition
// answers. Then it is used there again. Only writes that were reported as lost are lost.
func TestATagThatWasMovedToASilentPartition(t *testing.T) {
	t.Parallel()
	for name, skipped := range map[string][]string{
		"":                     nil,
		"old places are known": {"give up", "until forgotten", "stop", "until written"},
		"writers do not wait":  {"stop", "until written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
			m := tf.mover(Config{Moves: tf.dir})
			tag := tf.tagOf(0, "moved")
			tf.restoredSince(m, tag)

			var told atomic.Bool
			var mu sync.Mutex
			after := map[string]bool{} // acknowledged writes that began after lost was called
			writing, stop := context.WithCancel(ctx)
			var writers sync.WaitGroup
			for w := range 4 {
				c := tf.open().Client()
				must(t, set(ctx, c, "{"+tag+"}:first", "x")) // it knows the place
				writers.Go(func() {
					for i := 0; writing.Err() == nil; i++ {
						late, member := told.Load(), fmt.Sprint(w, "-", i)
						if c.Do(writing, c.B().Sadd().Key("{"+tag+"}:set").Member(member).Build()).Error() == nil && late {
							mu.Lock()
							after[member] = true
							mu.Unlock()
						}
					}
				})
			}
			count := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(after)
			}
			inner := m.step
			m.step = func(step, tag string, do func() error) error {
				if slices.Contains(skipped, step) {
					return nil
				}
				return inner(step, tag, do)
			}
			var lost []string
			must(t, tf.compare(m, 0, 1, func(tags []string) error {
				lost = append(lost, tags...)
				told.Store(true)
				if name == "writers do not wait" {
					redistest.Eventually(t, "they write", func() bool { return count() > 10 })
				}
				return nil
			}))
			if !slices.Equal(lost, []string{tag}) {
				t.Errorf("lost: %q, want %q", lost, tag)
			}
			redistest.Eventually(t, "writers go on", func() bool { return count() > 100 })
			stop()
			writers.Wait()
			_, err := m.resume(ctx, 0)
			must(t, err)

			c := tf.open().Client()
			there, err := c.Do(ctx, c.B().Smembers().Key("{"+tag+"}:set").Build()).AsStrSlice()
			must(t, err)
			missing := 0
			for member := range after {
				if !slices.Contains(there, member) {
					missing++
				}
			}
			if (missing > 0) != (name != "") {
				t.Errorf("%d of %d writes are lost that began when the loss was told", missing, len(after))
			}
			if got, err := get(ctx, c, "{"+tag+"}"); got != "new" || err != nil {
				t.Errorf("the tag has %q, %v, want what it had in the other partition", got, err)
			}
			if name == "" {
				tf.wantHome(tf.open(), tag, 1)
			}
		})
	}
}

// TestGivingUpIsCutOff between its steps. The next call does the rest, and nothing is given up
// before it was told to be lost.
func TestGivingUpIsCutOff(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"until forgotten", "until written", "lost", "yield", "the end"} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
			m := tf.mover(Config{Moves: tf.dir})
			tag := tf.tagOf(0, "moved")
			tf.putBack(m, tag)
			told := false
			lost := func(tags []string) error {
				told = told || slices.Contains(tags, tag)
				return nil
			}
			inner := m.step
			m.step = func(step, of string, do func() error) error {
				switch {
				case step == before:
					return errKilled
				case step == "yield" && before == "the end":
					must(t, inner(step, of, do))
					return errKilled
				}
				return inner(step, of, do)
			}
			_, err := m.Compare(ctx, 0, 1, "", func(tags []string) error {
				if before == "lost" {
					return errKilled
				}
				return lost(tags)
			})
			if !errors.Is(err, errKilled) {
				t.Fatalf("Compare = %v, want it cut off", err)
			}
			if r, err := parseRecord(tf.records(tag)[0]); err != nil || r.Home != 0 && !told {
				t.Errorf("the record is %q (%v), and no report was made", tf.records(tag), err)
			}
			again := tf.mover(Config{Moves: tf.dir})
			must(t, tf.compare(again, 0, 1, lost))
			_, err = again.resume(ctx, 0) // at the end of a restoration an agent does so
			must(t, err)
			if !told {
				t.Errorf("no report says that %q is lost", tag)
			}
			tf.wantHome(tf.open(), tag, 1)
		})
	}
}

// TestNamedByOthers: records of other partitions say which tags a restored one had.
func TestNamedByOthers(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
	m, c, server := tf.mover(Config{Moves: tf.dir}), tf.open().Client(), tf.direct[0]
	stays, came, back, other := tf.tagOf(1, "stays"), tf.tagOf(1, "came"), tf.tagOf(0, "back"), tf.tagOf(1, "other")
	for _, tag := range []string{stays, came, back, other} {
		must(t, set(ctx, c, "{"+tag+"}", "x"))
	}
	_, err := m.Move(ctx, 0, stays)
	must(t, err)
	_, err = m.Move(ctx, 1, back)
	must(t, err)
	// The archive is of this time. Since then one tag came, and one came back.
	_, err = m.Move(ctx, 0, came, back)
	must(t, err)
	for _, tag := range []string{came, back} {
		must(t, server.Do(ctx, server.B().Del().Key(members.RecordKey(tag), "{"+tag+"}").Build()).Error())
		must(t, server.Do(ctx, server.B().Decr().Key(members.TagsKey).Build()).Error())
	}
	must(t, server.Do(ctx, server.B().Set().Key(members.RecordKey(back)).Value("1").Build()).Error())
	if err := c.Do(ctx, c.B().Set().Key("{"+back+"}").Value("y").Build()).Error(); err == nil {
		t.Error("a tag can be written that two partitions send to each other")
	}

	for range 2 { // the second call is a repeat after the first was cut off behind lost
		var lost []string
		_, err := m.Compare(ctx, 0, 1, "", func(tags []string) error {
			lost = append(lost, tags...)
			return errKilled
		})
		slices.Sort(lost)
		want := []string{came, back}
		slices.Sort(want)
		if diff := cmp.Diff(want, lost); diff != "" || !errors.Is(err, errKilled) {
			t.Errorf("Compare: %v (-want +got):\n%s", err, diff)
		}
	}
	must(t, tf.compare(m, 0, 1, func([]string) error { return nil }))
	for _, tag := range []string{stays, came, back} {
		must(t, set(ctx, tf.open().Client(), "{"+tag+"}", "y"))
		tf.wantHome(tf.open(), tag, 0)
	}
	if got := tf.keys(0); len(got) != 3 {
		t.Errorf("partition 0 has %q", got)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
	m, c := tf.mover(Config{Moves: tf.dir}), tf.open().Client()
	want := map[string]bool{}
	for i := range 2*pageSize + 10 {
		tag := tf.tagOf(0, fmt.Sprint("t", i, "-"))
		want[tag] = true
		must(t, set(ctx, c, "{"+tag+"}", "x"))
	}
	must(t, set(ctx, c, "{"+tf.tagOf(1, "x")+"}", "x"))
	gone := tf.tagOf(0, "t0-")
	_, err := m.Move(ctx, 1, gone)
	must(t, err)
	delete(want, gone)
	got := map[string]bool{}
	must(t, m.Tags(ctx, 0, func(tags []string) error {
		for _, tag := range tags {
			got[tag] = true
		}
		return nil
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestBothWentBack: of two restored partitions that have a tag the one gives it up from which it
// was moved, whichever is compared first, and keeps its data.
func TestBothWentBack(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
	m := tf.mover(Config{Moves: tf.dir})
	tag := tf.tagOf(0, "moved")
	tf.putBack(m, tag)
	for _, c := range tf.direct {
		must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
	}
	now, err := tf.dir.Confirm(ctx, 0)
	must(t, err)
	if n, err := Restored(ctx, slowly, now, 0, tf.masters[0].Addr()); n != 0 || err != nil {
		t.Errorf("Restored = %d, %v, want that nothing is given to a partition that went back", n, err)
	}
	mark := func([]string) error { return nil }
	if done, err := m.Compare(ctx, 1, 0, "", mark); done || err != nil {
		t.Errorf("Compare of the one that has the newer data = %t, %v, want that it waits", done, err)
	}
	if got, want := tf.records(tag), []string{"0", "1"}; !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
	_, err = m.Move(ctx, 1, tag)
	wantError(t, err, ErrNotMoved) // nothing moves before all is compared
	must(t, tf.compare(m, 0, 1, mark))
	_, err = m.resumeAll(ctx)
	wantError(t, err, fleet.ErrUnavailable) // nothing is deleted before all is compared
	must(t, tf.compare(m, 1, 0, mark))
	for _, c := range tf.direct {
		must(t, c.Do(ctx, c.B().Del().Key(members.RestoredKey).Build()).Error())
	}
	_, err = m.resumeAll(ctx)
	must(t, err)
	if got, want := tf.records(tag), []string{"1", "1"}; !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
	for id, want := range []string{"old", "new"} {
		if got, err := get(ctx, tf.direct[id], "{"+tag+"}"); got != want || err != nil {
			t.Errorf("in partition %d the tag has %q, %v, want %q", id, got, err, want)
		}
	}
}

// TestNothingMovesBeforeItIsCompared: no tag goes from a restored partition or to one.
func TestNothingMovesBeforeItIsCompared(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}, redistest.Options{}), t.Context()
	m := tf.mover(Config{Moves: tf.dir})
	tag := tf.tagOf(0, "moved")
	tf.putBack(m, tag)
	c := tf.direct[0]
	must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
	_, err := m.Move(ctx, 2, tag)
	wantError(t, err, ErrNotMoved)
	wantError(t, err, fleet.ErrUnavailable)
	must(t, tf.compare(m, 0, 1, func([]string) error { return nil }))
	must(t, c.Do(ctx, c.B().Del().Key(members.RestoredKey).Build()).Error())
	_, err = m.resumeAll(ctx)
	must(t, err)
	tf.wantHome(tf.open(), tag, 1)
	// Nor does one come to a restored partition, which might have to give it up again.
	c = tf.direct[2]
	must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
	_, err = m.Move(ctx, 2, tag)
	wantError(t, err, ErrNotMoved)
	tf.wantHome(tf.open(), tag, 1)
}

// TestTheDestinationLostTheTag: a tag whose keys are still where it was moved from is there again,
// also if clients find it by the record of a third partition.
func TestTheDestinationLostTheTag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		owner, from int
		restored    []int
		lose        func(tf *testFleet, tag string)
		want        []string
	}{
		"before the old keys were deleted": {0, 0, []int{1}, func(*testFleet, string) {}, []string{"0", "0", ""}},
		"and the source went back, too": {0, 2, []int{1, 2}, func(tf *testFleet, tag string) {
			must(tf.t, set(tf.t.Context(), tf.direct[0], members.RecordKey(tag), "1"))
			must(tf.t, set(tf.t.Context(), tf.direct[2], members.RecordKey(tag), "2"))
		}, []string{"2", "", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{}), t.Context()
			tag := tf.place(tc.owner, tc.from, "t")
			k := &killer{}
			k.fails = func(int) bool { return slices.Contains(k.steps, "clear") }
			_, err := interrupt(tf.mover(Config{Moves: tf.dir}), k.before).Move(ctx, 1, tag)
			wantError(t, err, errKilled)
			c := tf.direct[1]
			must(t, c.Do(ctx, c.B().Del().Key(append(tf.keys(1), members.RecordKey(tag), members.TagsKey)...).Build()).Error())
			tc.lose(tf, tag)
			for _, id := range tc.restored {
				must(t, tf.direct[id].Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
			}
			m := impatient(tf.mover(Config{Moves: tf.dir}))
			var marked []string
			for _, id := range tc.restored {
				for with := range 3 {
					if with != id {
						must(t, tf.compare(m, id, with, func(tags []string) error { marked = append(marked, tags...); return nil }))
					}
				}
			}
			if got := tf.records(tag); !slices.Equal(got, tc.want) || !slices.Contains(marked, tag) {
				t.Errorf("the records are %q, and %q are marked, want %q", got, marked, tc.want)
			}
			tf.wantReads(name, tag)
			tf.wantWrite(name, tag)
		})
	}
}

// TestComparisonsWait for each other: where two partitions or three went back, one acts first.
func TestComparisonsWait(t *testing.T) {
	t.Parallel()
	mark := func([]string) error { return nil }
	type compared struct {
		here, there int
		done        bool
	}
	for name, tc := range map[string]struct {
		records  []string // of a tag that partition 0 owns
		restored []int
		calls    []compared
		want     []string
	}{
		"both send the tag to each other": {[]string{"1", "0", ""}, []int{0, 1},
			[]compared{{0, 1, false}, {1, 0, false}, {1, 0, true}, {0, 1, true}}, []string{"1", "1", ""}},
		"the owner and the destination lost it": {[]string{"", "", trip{2, 1, "R"}.gone()}, []int{0, 1},
			[]compared{{0, 2, false}, {1, 2, false}, {1, 2, true}, {0, 2, false}, {0, 2, true}}, []string{"2", "2", "2"}},
		"the owner sends it to one that lost it": {[]string{"2", "1", ""}, []int{0, 2},
			[]compared{{0, 1, false}, {0, 1, true}}, []string{"1", "1", ""}},
		"it has it no more when it is to get it": {[]string{"0", "1", ""}, []int{0},
			[]compared{{0, 1, false}}, []string{"0", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{}), t.Context()
			m, tag := impatient(tf.mover(Config{Moves: tf.dir})), tf.tagOf(0, "t")
			if tc.want[1] == "" {
				c := tf.direct[1]
				at(m, "until written", func() { must(t, c.Do(ctx, c.B().Del().Key(members.RecordKey(tag)).Build()).Error()) })
			}
			for id, text := range tc.records {
				if text != "" {
					must(t, set(ctx, tf.direct[id], members.RecordKey(tag), text))
				}
			}
			for _, id := range tc.restored {
				c := tf.direct[id]
				must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
			}
			for i, call := range tc.calls {
				if done, err := m.Compare(ctx, call.here, call.there, "", mark); done != call.done || err != nil {
					t.Errorf("call %d: Compare of %d with %d = %t, %v, want %t; the records are %q", i, call.here, call.there, done, err, call.done, tf.records(tag))
				}
			}
			if got := tf.records(tag); !slices.Equal(got, tc.want) {
				t.Errorf("the records are %q, want %q", got, tc.want)
			}
		})
	}
}

// TestATagThatWentOn: a partition that went back to the middle of a move deletes its data of a
// tag that has gone on from its destination since.
func TestATagThatWentOn(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{}), t.Context()
	m, tag := impatient(tf.mover(Config{Moves: tf.dir})), tf.place(0, 0, "t")
	for _, to := range []int{1, 2} {
		_, err := m.Move(ctx, to, tag)
		must(t, err)
	}
	must(t, set(ctx, tf.direct[0], members.RecordKey(tag), trip{0, 1, "R"}.gone()))
	must(t, set(ctx, tf.direct[0], "{"+tag+"}:1", "old"))
	_, err := m.resumeAll(ctx)
	must(t, err)
	tf.wantHome(tf.open(), tag, 2)
	tf.wantReads("afterwards", tag)
}

// TestAnOldMarkOfATagThatWentOn: by the data of partition 1 the tag has just gone to partition 2, which has sent it on to
// partition 0 since. It stays there.
func TestAnOldMarkOfATagThatWentOn(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}, redistest.Options{}), t.Context()
	m, tag := impatient(tf.mover(Config{Moves: tf.dir})), tf.place(1, 1, "t")
	for _, to := range []int{2, 0} {
		_, err := m.Move(ctx, to, tag)
		must(t, err)
	}
	must(t, set(ctx, tf.direct[1], members.RecordKey(tag), trip{1, 2, restoredRun}.gone()))
	for _, with := range []int{0, 1} {
		must(t, tf.compare(m, 2, with, func([]string) error { return nil }))
	}
	_, err := m.resumeAll(ctx)
	must(t, err)
	tf.wantHome(tf.open(), tag, 0)
	tf.wantReads("afterwards", tag)
}

// TestLeftMarksOfGivingUp: an agent died while it gave a tag up, or the data is of that time, and the other partition has not got
// the tag: its writers go on.
func TestLeftMarksOfGivingUp(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}), t.Context()
	m := impatient(tf.mover(Config{Moves: tf.dir}))
	for _, mark := range []members.Mark{members.Leaving, members.Moving} {
		tag := tf.place(0, 0, "t")
		must(t, set(ctx, tf.direct[0], members.RecordKey(tag), markedText(0, mark, restoredRun+".1")))
		must(t, tf.compare(m, 0, 1, func([]string) error { return nil }))
		if got, want := tf.records(tag), []string{"0", ""}; !slices.Equal(got, want) {
			t.Errorf("the records are %q, want %q", got, want)
		}
	}
}

// TestAClientBeginsTheLostTag at its destination while it is taken back: it stays there, and its
// old data is kept where it was.
func TestAClientBeginsTheLostTag(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleetAt(t, calm, nil, redistest.Options{}, redistest.Options{}), t.Context()
	m, tag := impatient(tf.mover(Config{Moves: tf.dir})), tf.tagOf(0, "t")
	must(t, set(ctx, tf.direct[0], members.RecordKey(tag), trip{0, 1, "R"}.gone()))
	must(t, set(ctx, tf.direct[0], "{"+tag+"}", "old"))
	c := tf.direct[1]
	must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "1").Build()).Error())
	at(m, "correct", func() { must(t, set(ctx, tf.open().Client(), "{"+tag+"}", "new")) })
	must(t, tf.compare(m, 1, 0, func([]string) error { return nil }))
	if got, want := tf.records(tag), []string{"1", "1"}; !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
	for id, want := range []string{"old", "new"} {
		if got, err := get(ctx, tf.direct[id], "{"+tag+"}"); got != want || err != nil {
			t.Errorf("in partition %d the tag has %q, %v, want %q", id, got, err, want)
		}
	}
}
