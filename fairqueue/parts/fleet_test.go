package parts

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestMasterOfAFleetDies: with parts in the partitions of a fleet it is as with servers that know
// nothing of each other, until the replica of the dead master takes over.
func TestMasterOfAFleetDies(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	servers, err := devfleet.Start(t.Context(), devfleet.Config{
		Binary: redistest.Binary(t), Partitions: 2, Replicas: 2, Settings: directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond},
	})
	must(err)
	t.Cleanup(func() { must(servers.Stop()) })
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	must(err)
	t.Cleanup(dir.Close)
	silent := slog.New(slog.DiscardHandler)
	f, err := fleet.Open(t.Context(), dir, fleet.Config{WaitReplicas: 1, Logger: silent})
	must(err)
	t.Cleanup(f.Close)

	q := mustNew(t, Config{Parts: On(f.Client(), "jobs", 6), Timeout: 2 * time.Second})
	partition := make([]int, len(q.parts))
	for i, p := range q.parts {
		_, err := p.queue.Write(t.Context(), fairqueue.Draft{Tenant: "first"}) // places its tag
		must(err)
		at, err := f.Locate(t.Context(), p.queue.Name())
		must(err)
		partition[i] = at.Partition
	}
	dead := partition[0]
	agent := func() {
		members := failover.NewRedis(rueidis.ClientOption{})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = failover.New(dir, members, failover.Config{Logger: silent}).Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait(); members.Close() })
	}
	survive(t, q, outage{
		begin: func() {
			for _, s := range servers.Servers() {
				if s.Partition == dead && s.Role == devfleet.Master {
					must(s.Proc.Kill())
				}
			}
		},
		end:      agent,
		hits:     func(part int) bool { return partition[part] == dead },
		readable: redistest.Shared(t).Knows("evalsha_ro"),
	})
}
