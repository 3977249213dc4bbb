package grow

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redistest"
)

// TestAnAddThatWasCutOffIsFinished, at each step where it can be: what it would have
// done is done, and tags are placed again.
func TestAnAddThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cut    func(tf *testFleet, m *directory.Map)
		blocks bool // whether nobody places tags until then
	}{
		{"announced", func(*testFleet, *directory.Map) {}, false},
		{"before masters know the floor", func(tf *testFleet, _ *directory.Map) {
			tf.change(func(m *directory.Map) { m.Floor = m.Epoch + 1 })
		}, false},
		{"before they are opened", func(tf *testFleet, m *directory.Map) {
			cfg := onTrust
			masters, err := cfg.masters(m)
			must(tf.t, err)
			announced := tf.change(func(m *directory.Map) { m.Floor = m.Epoch + 1 })
			must(tf.t, raise(tf.t.Context(), masters, announced))
			for _, s := range masters {
				s.client.Close()
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
			working, stop := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				finisher := cfg.finisher(tf.dir, slog.New(slog.DiscardHandler))
				finisher.After = 50 * time.Millisecond
				_ = finisher.Run(working, tf.dir)
			}()
			redistest.Eventually(t, "the partition is open", func() bool {
				m, err := tf.dir.Confirm(ctx, 0)
				return err == nil && !m.Adding() && m.Partitions[1].Phase == directory.Open
			})
			must(t, put(ctx, f.Client(), "{other}", "x"))
			stop()
			<-done
		})
	}
}
