package failover

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestNoCopyInAnothersTurn: a copy for a replica and a snapshot never happen together
// on a node, whichever processes they are of.
func TestNoCopyInAnothersTurn(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	members := NewRedis(rueidis.ClientOption{})
	t.Cleanup(members.Close)
	p := w.mapNow().Partitions[0]
	fenceMember(t, members, p.Replicas[0].Addr)
	turn := func(life time.Duration) {
		t.Helper()
		if has, err := w.dir.Turn(t.Context(), p.Master.Node, "a keeper", life); err != nil || !has {
			t.Fatalf("Turn = %t, %v", has, err)
		}
	}
	turn(time.Minute)
	store := &refusals{Store: w.dir.Store}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = New(directory.New(store), members, Config{Interval: every, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	redistest.Eventually(t, "the agent has asked for the turn again", func() bool {
		l, err := members.Probe(t.Context(), p.Replicas[0].Addr)
		must(t, err)
		if l.Follows == p.Master.Addr {
			t.Fatal("a copy in another's turn")
		}
		return store.count.Load() > 1
	})
	turn(0)
	w.settled(w.client(fleet.Config{}), 0)
}

// refusals counts the turns that a directory did not give.
type refusals struct {
	directory.Store
	count atomic.Int32
}

func (s *refusals) Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error) {
	now, err := s.Store.Hold(ctx, name, holder, ttl)
	if err == nil && now != holder && ttl > 0 && strings.HasPrefix(name, "turn/") {
		s.count.Add(1)
	}
	return now, err
}

// TestInStep: a master tells how many replicas receive its writes.
func TestInStep(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	members := NewRedis(rueidis.ClientOption{})
	t.Cleanup(members.Close)
	p := w.mapNow().Partitions[0]
	inStep := func(want int) {
		t.Helper()
		redistest.Eventually(t, "the master counts its replicas", func() bool {
			l, err := members.Probe(t.Context(), p.Master.Addr)
			must(t, err)
			return l.Master && l.InStep == want
		})
	}
	inStep(1)
	fenceMember(t, members, p.Replicas[0].Addr)
	inStep(0)
	followMaster(t, members, p.Replicas[0].Addr, p.Master.Addr)
	inStep(1)
}
