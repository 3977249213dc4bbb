package devfleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestAddPartition(t *testing.T) {
	t.Parallel()
	f := start(t, Config{Binary: redistest.Binary(t), Partitions: 2, Settings: quick})
	present := placementOf(mapOf(t, f))
	before := f.Servers()
	watch(t, f)
	if err := f.AddPartition(deadline(t), 2); err != nil {
		t.Fatal(err)
	}

	added, err := plan.PlaceMore([]string{"node-0", "node-1", "node-2"}, present, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	m, servers := mapOf(t, f), f.Servers()
	if diff := cmp.Diff(append(present, added...), placementOf(m)); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
	if !slices.Equal(servers[:4], before) || len(servers) != 8 {
		t.Fatalf("servers = %v, want those from before, %v, and 4 more", servers, before)
	}
	for i, p := range m.Partitions {
		if got, want := []string{p.Master.Addr, p.Replicas[0].Addr}, []string{servers[2*i].Addr, servers[2*i+1].Addr}; !slices.Equal(got, want) {
			t.Errorf("partition %d is at %v, want %v", i, got, want)
		}
		if p.ID != servers[2*i].Partition || p.Phase != directory.Open {
			t.Errorf("partition %d = %+v, want it open", servers[2*i].Partition, p)
		}
	}
	if got, want := len(processesIn(t, f.Dir())), 9; got != want {
		t.Errorf("%d processes, want %d", got, want)
	}
}

// A partition that does not come into being leaves the fleet as it was.
func TestAddPartitionThatFails(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Dir = t.TempDir()
	cfg.Binary = failing(t, "partition-1")
	f := start(t, cfg)
	watch(t, f)
	before := f.Servers()
	wantSame := func(when string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AddPartition %s: %v, want %q", when, err, want)
		}
		if !slices.Equal(f.Servers(), before) || len(mapOf(t, f).Partitions) != 1 {
			t.Errorf("AddPartition %s: servers %v and partitions %v, want them as they were", when, f.Servers(), mapOf(t, f).Partitions)
		}
		if got, want := len(processesIn(t, f.Dir())), 3; got != want {
			t.Errorf("AddPartition %s: %d processes, want %d", when, got, want)
		}
	}
	wantSame("where a server does not start", f.AddPartition(deadline(t), 1), "partition 1")
	wantSame("of no partition", f.AddPartition(deadline(t), 0), "0 partitions cannot be placed")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantSame("that nobody waits for", f.AddPartition(ctx, 1), "canceled")

	f.cfg.Binary = changed(t, "partition-1", `set -- "$@" --maxmemory 8mb --maxmemory-policy allkeys-lru`)
	wantSame("of a server that evicts", f.AddPartition(deadline(t), 1), "may evict any key")

	f.cfg.Binary = redistest.Binary(t)
	if err := f.AddPartition(deadline(t), 1); err != nil {
		t.Errorf("AddPartition after those that failed: %v", err)
	}
}

// Clients know the partition by then, so its servers stay until the fleet ends.
func TestStopWhileAPartitionIsAdded(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Settings = directory.Settings{ViewTTL: 1 << 40, ReplyTimeout: 1 << 40, PlacementTTL: 1 << 40} // 18 minutes each
	f := start(t, cfg)
	failed := make(chan error, 1)
	go func() { failed <- f.AddPartition(t.Context(), 1) }()
	redistest.Eventually(t, "the directory knows the partition", func() bool { return len(mapOf(t, f).Partitions) == 2 })
	if err := f.Stop(); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := <-failed; !errors.Is(err, ErrStopped) {
		t.Errorf("AddPartition: %v, want ErrStopped", err)
	}
	if got, want := len(f.Servers()), 4; got != want {
		t.Errorf("%d servers, want %d", got, want)
	}
	if pids := processesIn(t, f.Dir()); len(pids) != 0 {
		t.Errorf("processes after Stop: %v, want none", pids)
	}
}
