package shrink

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
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
