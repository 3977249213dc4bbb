package failover

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestNothingIsChangedByAnOldMap: the directory went back between two steps of an agent, and the
// partition is the same in both maps.
func TestNothingIsChangedByAnOldMap(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: devfleet.NoReplicas})
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	a := New(w.dir, servers, Config{Logger: slog.New(slog.DiscardHandler)})
	m := w.mapNow()
	change := func() error {
		_, err := a.change(t.Context(), m.Partitions[0], func(p *directory.Partition) { p.ReadOnly = true })
		return err
	}
	a.learn(m.Next())
	if err := change(); !errors.Is(err, errBehind) {
		t.Errorf("a change by the map before the one that it knows = %v, want %v", err, errBehind)
	}
	if now := w.mapNow(); now.ID() != m.ID() {
		t.Errorf("the map is %+v, want that of before", now)
	}
	a.newest.Store(m)
	must(t, change())
}
