package grow

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAnAddThatWasCutOffIsFinished at each step where it can be cut off: the remaining steps
// are done, and tags are placed again.
func TestAnAddThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cut    func(tf *testFleet, m *directory.Map)
		blocks bool // whether no client places tags until then
	}{
		{"announced", func(*testFleet, *directory.Map) {}, false},
		{"before masters know the floor", func(tf *testFleet, _ *directory.Map) {
			tf.change(func(m *directory.Map) { m.Floor = m.Epoch + 1 })
		}, false},
		{"before they are opened", func(tf *testFleet, m *directory.Map) {
			announced := tf.change(func(m *directory.Map) { m.Floor = m.Epoch + 1 })
			servers := failover.NewRedis(slowly)
			defer servers.Close()
			for i, p := range m.Partitions {
				must(tf.t, servers.Raise(tf.t.Context(), p.Master.Addr, m.Fleet, i, announced.Floor, false))
			}
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf, ctx := startFleet(t, 1, 0, quick), t.Context()
			before, err := tf.dir.Confirm(ctx, 0)
			must(t, err)
			cfg := onTrust
			m, err := cfg.Announce(ctx, tf.dir, before, tf.servers(1, 0))
			must(t, err)
			tc.cut(tf, m)
			f := tf.open(fleet.Config{})
			if tc.blocks {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				if err := set(short, f.Client(), "{new}", "x"); err == nil {
					t.Error("a tag is placed while the floor is above the map")
				}
				cancel()
			}
			end := tf.growing(tf.dir).Agent(ctx)
			redistest.Eventually(t, "the partition is open", func() bool {
				m, err := tf.dir.Confirm(ctx, 0)
				return err == nil && !m.Adding() && m.Partitions[1].Phase == directory.Open
			})
			must(t, put(ctx, f.Client(), "{other}", "x"))
			end()
		})
	}
}
