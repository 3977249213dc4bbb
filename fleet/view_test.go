package fleet

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// confirming is a directory that confirms its map, and counts how often.
type confirming struct {
	directory.Directory

	m     *directory.Map
	asked atomic.Int64
}

func (d *confirming) Confirm(_ context.Context, epoch int64) (*directory.Map, error) {
	d.asked.Add(1)
	if epoch == d.m.Epoch {
		return nil, nil //nolint:nilnil // as Directory says
	}
	return d.m, nil
}

// TestTwoConfirmationsMayFail: the directory is asked three times within ViewTTL, and no
// more, since a thousand processes do.
func TestTwoConfirmationsMayFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		points, err := ring.New(1)
		must(t, err)
		dir := &confirming{m: &directory.Map{
			Version: directory.Version, Epoch: 1, Points: points.Points(),
			Partitions: []directory.Partition{{Phase: directory.Open, Master: directory.Member{Addr: "127.0.0.1:1"}}},
		}}
		f, err := Open(t.Context(), dir, Config{})
		must(t, err)
		defer f.Close()
		const ttls = 200
		time.Sleep(ttls * directory.DefaultViewTTL)
		if each := float64(dir.asked.Load()) / ttls; each < 2.8 || each > 3.3 {
			t.Errorf("the directory was asked %.2f times within ViewTTL, want 3", each)
		}
	})
}
