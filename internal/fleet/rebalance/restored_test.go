package rebalance

import (
	"testing"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestARestoredPartitionHasNoTagThatWasMoved: the archive brings the record and the data
// of a tag back that is elsewhere by now. The data there counts, and the old data is deleted.
func TestARestoredPartitionHasNoTagThatWasMoved(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, redistest.Options{}, redistest.Options{}), t.Context()
	f := tf.open()
	moved, stays := tf.tagOf(0, "moved"), tf.tagOf(0, "stays")
	for _, tag := range []string{moved, stays} {
		must(t, f.Client().Do(ctx, f.Client().B().Set().Key("{"+tag+"}").Value("old").Build()).Error())
	}
	m := tf.mover(Config{Moves: tf.dir})
	_, err := m.Move(ctx, 1, moved)
	must(t, err)
	must(t, f.Client().Do(ctx, f.Client().B().Set().Key("{"+moved+"}").Value("new").Build()).Error())
	// The data of an archive from before the move.
	server := tf.direct[0]
	for key, value := range map[string]string{members.RecordKey(moved): "0", "{" + moved + "}": "old", members.Base + ":tags": "2"} {
		must(t, server.Do(ctx, server.B().Set().Key(key).Value(value).Build()).Error())
	}

	now, err := tf.dir.Confirm(ctx, 0)
	must(t, err)
	n, err := Restored(ctx, slowly, now, 0, tf.masters[0].Addr())
	if n != 1 || err != nil {
		t.Errorf("Restored = %d, %v, want one tag", n, err)
	}
	for tag, want := range map[string]string{moved: "new", stays: "old"} {
		c := tf.open().Client()
		if got, err := c.Do(ctx, c.B().Get().Key("{"+tag+"}").Build()).ToString(); got != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", tag, got, err, want)
		}
	}
	_, err = m.resume(ctx, 0)
	must(t, err)
	record, err := server.Do(ctx, server.B().Get().Key(members.RecordKey(moved)).Build()).ToString()
	if record != "1" || err != nil {
		t.Errorf("the record is %q, %v, want that it is at 1", record, err)
	}
	if there, err := server.Do(ctx, server.B().Exists().Key("{"+moved+"}").Build()).AsBool(); there || err != nil {
		t.Errorf("the old data is there: %t, %v", there, err)
	}
	if tags, err := server.Do(ctx, server.B().Get().Key(members.Base+":tags").Build()).AsInt64(); tags != 1 || err != nil {
		t.Errorf("%d tags, %v, want 1", tags, err)
	}
	// A partition that is silent is no reason not to go on.
	tf.masters[1].Kill()
	if _, err := Restored(ctx, slowly, now, 0, tf.masters[0].Addr()); err != nil {
		t.Errorf("Restored while partition 1 is silent = %v", err)
	}
}
