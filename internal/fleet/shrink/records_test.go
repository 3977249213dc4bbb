package shrink

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/ring"
)

// TestOldRecords: moves leave records behind that nobody asks for, until the ring changes. They
// mislead nobody when a partition is removed.
func TestOldRecords(t *testing.T) {
	t.Parallel()
	const last = 3
	tf := startFleet(t, last)
	tf.add(1)
	ctx, f := t.Context(), tf.open(tf.dir)
	mover := tf.mover(f)
	m := tf.present()
	rest, err := ring.Of(m.Points.Without(last))
	must(t, err)
	points, err := m.Ring()
	must(t, err)
	record := func(partition int, tag string) string {
		c := tf.direct[partition]
		text, _ := c.Do(ctx, c.B().Get().Key(members.RecordKey(tag)).Build()).ToString()
		return text
	}
	leave := func(partition int, tag, text string) {
		t.Helper()
		c := tf.direct[partition]
		must(t, c.Do(ctx, c.B().Set().Key(members.RecordKey(tag)).Value(text).Build()).Error())
	}
	var tags []string // of the partition
	for i := 0; len(tags) < 20; i++ {
		if tag := fmt.Sprint("tag", i); points.Owner(ring.Position(tag)) == last {
			tags = append(tags, tag)
		}
	}
	forgotten, written := tags[0], ledger{}
	for _, tag := range tags[1:] {
		must(t, written.write(ctx, f, tag))
	}
	tf.retire(mover, last)

	// It was moved from its next owner to the partition and on, and then forgotten.
	leave(rest.Owner(ring.Position(forgotten)), forgotten, strconv.Itoa(last))
	misled := 0
	for _, tag := range tags[1:] {
		owner := rest.Owner(ring.Position(tag))
		for other := range last {
			// It was once moved from its next owner to the other one, forgotten, and created again.
			if home := record(last, tag); home != strconv.Itoa(owner) && home != strconv.Itoa(other) && other != owner {
				leave(owner, tag, strconv.Itoa(other))
				misled++
			}
		}
	}
	if misled == 0 {
		t.Fatal("all tags are at their next owner")
	}
	m, err = Remove(ctx, f, tf.dir, mover, last, Config{Option: slowly})
	must(t, err)
	tf.knows(f, m.Epoch)
	tf.direct = tf.direct[:last]
	for _, tag := range tags {
		must(t, written.write(ctx, f, tag))
	}
	written.check(tf, "afterwards", map[string]*fleet.Fleet{"the present map": f})
	for id := range last {
		for _, key := range tf.keys(id, members.RecordKey("*")) {
			if tag, _ := members.RecordedTag(key); record(id, tag) == strconv.Itoa(last) {
				t.Errorf("the record of %q in partition %d names the partition that was removed", tag, id)
			}
		}
	}
}

// TestWritesDoNotAskNextOwnersEarly: the next owner has a record of a tag that was moved from
// there, and forgotten. By the map before, nobody asks for it.
func TestWritesDoNotAskNextOwnersEarly(t *testing.T) {
	t.Parallel()
	const last = 3
	tf := startFleet(t, 1)
	tf.add(last)
	ctx, pin := t.Context(), &pinned{Directory: tf.dir}
	young := tf.open(tf.dir)
	tf.retire(tf.mover(young), last)
	m := tf.present()
	rest, err := ring.Of(m.Points.Without(last))
	must(t, err)
	points, err := m.Ring()
	must(t, err)
	tag, owner := "", 0
	for i := 0; owner == 0; i++ { // 0 owned it before
		if tag = fmt.Sprint("tag", i); points.Owner(ring.Position(tag)) == last {
			owner = rest.Owner(ring.Position(tag))
		}
	}
	must(t, rebalance.Close(ctx, tf.dir, owner)) // else the tag would be forwarded there
	must(t, rebalance.Close(ctx, tf.dir, last-owner))
	c := tf.direct[owner]
	must(t, c.Do(ctx, c.B().Set().Key(members.RecordKey(tag)).Value(strconv.Itoa(last-owner)).Build()).Error())

	pin.m.Store(tf.present())
	old := tf.open(pin)
	tf.enter(directory.Yielding)
	tf.knows(young, tf.present().Epoch)
	written := ledger{}
	must(t, written.write(ctx, young, tag))
	must(t, written.write(ctx, old, tag))
	written.check(tf, "yielding", map[string]*fleet.Fleet{"the present map": young, "the former map": old})
}
