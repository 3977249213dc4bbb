package fleet

import (
	"testing"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestMarksOfAMove: a tag that is leaving is asked for each time, and one that is
// moving can be read and not written, until it has arrived elsewhere.
func TestMarksOfAMove(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, calm)
	f, mover, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
	tag := tagOwnedBy(t, f.view.Load().m, 0)
	key := "{" + tag + "}"
	must(t, put(ctx, f.Client(), key, "old"))
	home := func(partition int) string { return members.Record{Home: partition}.String() }
	leaving := members.Record{Home: 0, Mark: members.Leaving, Token: "T"}.String()
	moving := members.Record{Home: 0, Mark: members.Moving, Token: "T"}.String()
	exchange := func(partition int, before, after string) {
		t.Helper()
		must(t, retry.Policy{}.Do(ctx, func(int) error {
			ok, err := mover.view.Load().partitions[partition].exchange(ctx, tag, before, after)
			if err == nil && !ok {
				t.Fatalf("Exchange of %q on %d was refused", before, partition)
			}
			return err
		}))
	}
	if ok, err := mover.view.Load().partitions[0].exchange(ctx, tag, "5", "6"); ok || err != nil {
		t.Errorf("Exchange of a record that is not there = %v, %v, want it refused", ok, err)
	}
	exchange(0, home(0), leaving)
	fresh := tf.open(Config{})
	must(t, put(ctx, fresh.Client(), key, "x"))
	if fresh.places.get(tag) != nil {
		t.Error("the place of a tag that is leaving is remembered")
	}
	exchange(0, leaving, moving)
	if got, err := get(ctx, fresh.Client(), key); got != "x" || err != nil {
		t.Errorf("a read of a tag that is being moved = %q, %v, want x", got, err)
	}
	written := make(chan error, 1)
	go func() { written <- put(ctx, fresh.Client(), key, "new") }()

	must(t, mover.Partitions()[1].Do(ctx, mover.builder.Set().Key(key).Value("x").Build()).Error()) // the copy
	select {
	case err := <-written:
		t.Fatalf("a write of a tag that is being moved = %v, want it to wait", err)
	default:
	}
	exchange(1, "", home(1))
	exchange(0, moving, home(1))
	must(t, <-written)
	if got, err := get(ctx, tf.masters[1].Client(t), key); got != "new" || err != nil {
		t.Errorf("where the tag is by now, %s = %q, %v, want new", key, got, err)
	}
	redistest.Eventually(t, "the one that remembered the old place has asked again", func() bool {
		got, err := get(ctx, f.Client(), key)
		return err == nil && got == "new"
	})
	status, err := f.Status(ctx)
	must(t, err)
	if status.Partitions[0].Tags != 0 || status.Partitions[1].Tags != 1 {
		t.Errorf("%d and %d tags are counted, want 0 and 1", status.Partitions[0].Tags, status.Partitions[1].Tags)
	}
	if r, found, sure, err := f.view.Load().partitions[0].lookUp(ctx, tag); r.String() != "1" || !found || !sure || err != nil {
		t.Errorf("the record = %q, %t, %t, %v, want 1", r, found, sure, err)
	}
}
