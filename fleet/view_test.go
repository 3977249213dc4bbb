package fleet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/ring"
)

// counting is a store that counts reads.
type counting struct {
	directorytest.Memory

	asked atomic.Int64
}

func (s *counting) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	s.asked.Add(1)
	return s.Memory.Get(ctx, read, names...)
}

// TestTwoConfirmationsMayFail: the directory is asked three times within ViewTTL, and no
// more, since a thousand processes do.
func TestTwoConfirmationsMayFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		points, err := ring.New(1)
		must(t, err)
		store := new(counting)
		dir := directory.New(store)
		must(t, dir.Change(t.Context(), 0, &directory.Map{
			Version: directory.Version, Epoch: 1, Points: points.Points(),
			Partitions: []directory.Partition{{Phase: directory.Open, Master: directory.Member{Addr: "127.0.0.1:1"}}},
		}))
		f, err := Open(t.Context(), dir, Config{})
		must(t, err)
		defer f.Close()
		const ttls = 200
		time.Sleep(ttls * directory.DefaultViewTTL)
		if each := float64(store.asked.Load()) / ttls; each < 2.8 || each > 3.3 {
			t.Errorf("the directory was asked %.2f times within ViewTTL, want 3", each)
		}
	})
}
