package members

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// A copy of the map is replaced only by a newer one, on the expected server, also when its
// memory is full; and it can be read while the server refuses all reads.
func TestCopies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	c, ctx := server.Client(t), t.Context()
	keep := func(epoch int64, text, fleet string) int64 {
		t.Helper()
		there, err := Copy{epoch, text}.Keep(ctx, c, fleet, 3)
		if (err == nil) != (fleet == "f") {
			t.Errorf("Keep for the fleet %q: %v", fleet, err)
		}
		return there
	}
	set := func(args ...string) {
		t.Helper()
		if err := c.Do(ctx, c.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	keep(1, "lost", "f?") // it belongs to no fleet yet
	set("SET", IdentityKey, Identity("f", 3))
	set("SET", FloorKey, "7")
	if got := keep(5, "five", "f"); got != 5 {
		t.Errorf("the copy has epoch %d, want 5", got)
	}
	for _, old := range []int64{4, 5} {
		if got := keep(old, "old", "f"); got != 5 {
			t.Errorf("after a copy of epoch %d the epoch is %d, want 5", old, got)
		}
	}
	set("SET", "filler", strings.Repeat("x", 100_000))
	set("CONFIG", "SET", "maxmemory", "1")
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("SET on a full server = %v, want OOM", err)
	}
	if got := keep(1e13, "new \x00 and \xff", "f"); got != 1e13 {
		t.Errorf("a full server has the copy of epoch %d, want 1e13", got)
	}
	keep(1e14, "lost", "other fleet")
	want := Copy{1e13, "new \x00 and \xff"}
	for _, fenced := range []bool{false, true} {
		if fenced {
			set("CONFIG", "SET", "replica-serve-stale-data", "no")
			set("REPLICAOF", FenceHost, FencePort)
		}
		report, got, err := Inspect(ctx, c)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("the copy of a server, fenced: %v (-want +got):\n%s\n%v", fenced, diff, err)
		}
		if report.Identity != "f/3" || report.Floor != 7 || report.Unread != fenced {
			t.Errorf("Inspect = %+v, want what a server says about itself, fenced: %v", report, fenced)
		}
	}
	if err := c.Do(ctx, c.B().Get().Key("filler").Build()).Error(); err == nil || rueidis.IsRedisNil(err) {
		t.Errorf("GET from a fenced server = %v, want that it still refuses reads", err)
	}
}
