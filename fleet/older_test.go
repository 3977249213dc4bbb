package fleet

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAMasterIsBackWithoutItsNewestRecords, with the data of its last save: it reports tags
// that were placed since as placed nowhere. No client believes that, whether the master is
// fenced or not: a tag that is placed by a map with more partitions would have two homes.
func TestAMasterIsBackWithoutItsNewestRecords(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		t.Run(map[bool]string{true: "fenced", false: "unfenced"}[fenced], func(t *testing.T) {
			t.Parallel()
			tf := &testFleet{t: t, dirs: redistest.Durable(t)}
			tf.dir = tf.dial(tf.dirs.Addr())
			server := redistest.Start(t, redistest.Options{TCP: true})
			_, err := grow.Init(t.Context(), tf.dir, []grow.Partition{{Master: directory.Member{Addr: server.Addr()}}}, grow.Config{Settings: quick, Option: slowly, RestartTimeout: -1})
			must(t, err)
			ctx := t.Context()
			c := server.Client(t)
			must(t, c.Do(ctx, c.B().Save().Build()).Error())
			f := tf.open(Config{})
			var tags []string
			for i := range 30 {
				tags = append(tags, fmt.Sprint("tag", i))
				must(t, put(ctx, f.Client(), "{"+tags[i]+"}", "x"))
			}
			_, err = grow.Add(ctx, tf.dir, tf.servers(1, 0), tf.growing(tf.dir))
			must(t, err)

			server.Kill()
			server.Restart()
			c = server.Client(t)
			if fenced {
				must(t, c.Do(ctx, c.B().Arbitrary("REPLICAOF", "127.0.0.1", "1").Build()).Error())
			}
			if id, err := get(ctx, c, members.IdentityKey); err != nil || id == "" {
				t.Fatalf("the server says it is %q, %v, want a member: it has read its file", id, err)
			}
			other := tf.open(Config{})
			for _, tag := range tags {
				wantError(t, set(ctx, other.Client(), "{"+tag+"}", "y"), ErrUnavailable)
			}
			if tags, err := get(ctx, tf.masters[0].Client(t), members.TagsKey); err != nil || tags != "" {
				t.Errorf("the new partition has %q tags, %v, want none", tags, err)
			}
		})
	}
}
