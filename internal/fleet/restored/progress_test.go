package restored

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestTodo: steps are stored on a full server, too, and only for the restoration that they
// belong to.
func TestTodo(t *testing.T) {
	t.Parallel()
	c, ctx := redistest.Start(t, redistest.Options{}).Client(t), t.Context()
	if got, err := read(ctx, c); got.epoch != "" || err != nil {
		t.Errorf("read at first = %+v, %v, want nothing to do", got, err)
	}
	must(t, c.Do(ctx, c.B().Hset().Key(members.RestoredKey).FieldValue().FieldValue("epoch", "7").Build()).Error())
	seven, err := read(ctx, c)
	must(t, err)
	must(t, c.Do(ctx, c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error())
	if err := c.Do(ctx, c.B().Hset().Key("x").FieldValue().FieldValue("y", "z").Build()).Error(); !retry.Code(err, "OOM") {
		t.Fatalf("the server is not full: %v", err)
	}
	for _, n := range []found{{3, 0}, {2, 2}} {
		if ok, err := seven.store(ctx, c, n, here, with(12)); !ok || err != nil {
			t.Errorf("store = %t, %v", ok, err)
		}
	}
	other := progress{epoch: "6"}
	if ok, err := other.store(ctx, c, found{1, 1}, with(3)); ok || err != nil {
		t.Errorf("store of an earlier restoration = %t, %v, want that it is refused", ok, err)
	}
	if ok, err := other.finish(ctx, c); ok || err != nil {
		t.Errorf("finish of an earlier restoration = %t, %v, want that it is refused", ok, err)
	}
	got, err := read(ctx, c)
	must(t, err)
	want := map[string]string{"epoch": "7", "marked": "5", "lost": "2", "here": "1", "with:12": "1"}
	if diff := cmp.Diff(want, got.fields); diff != "" {
		t.Errorf("the hash (-want +got):\n%s", diff)
	}
	if !got.done(here) || got.done(with(13)) || got.number("marked") != 5 {
		t.Errorf("read = %+v", got)
	}
	if ok, err := seven.finish(ctx, c); !ok || err != nil {
		t.Errorf("finish = %t, %v", ok, err)
	}
	if got, err := read(ctx, c); got.epoch != "" || err != nil {
		t.Errorf("read at the end = %+v, %v, want nothing to do", got, err)
	}
}
