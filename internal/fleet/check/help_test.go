package check

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

var quiet = slog.New(slog.DiscardHandler)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testFleet is a fleet of real servers: two partitions with a replica each, on two nodes.
type testFleet struct {
	*fleet.Fleet

	t   *testing.T
	dev *devfleet.Fleet
	dir *directory.Directory
}

func startFleet(t *testing.T) *testFleet {
	t.Helper()
	return startFleetWith(t, devfleet.Config{Nodes: 2, Partitions: 2, MaxMemory: "64mb"})
}

func startFleetWith(t *testing.T, cfg devfleet.Config) *testFleet {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	dev, err := devfleet.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := dev.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
	f, err := fleet.Dial(t.Context(), dev.URL(), fleet.Config{Logger: quiet})
	must(t, err)
	t.Cleanup(f.Close)
	return &testFleet{f, t, dev, directory.Of(f.Client())}
}

// agent runs an agent until stop is called.
func (tf *testFleet) agent() (stop func()) {
	servers := failover.NewRedis(rueidis.ClientOption{})
	ctx, cancel := context.WithCancel(tf.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- failover.New(tf.dir, servers, failover.Config{Interval: 200 * time.Millisecond, Logger: quiet}).Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
		servers.Close()
	}
}

// run checks the fleet.
func (tf *testFleet) run(cfg Config) []Finding {
	tf.t.Helper()
	all, err := Run(tf.t.Context(), tf.Fleet, cfg)
	must(tf.t, err)
	return all
}

// server returns a server of a partition: 0 is its first master, 1 its replica.
func (tf *testFleet) server(partition, number int) devfleet.Server {
	var of []devfleet.Server
	for _, s := range tf.dev.Servers() {
		if s.Partition == partition {
			of = append(of, s)
		}
	}
	return of[number]
}

// do sends a command to a server.
func (tf *testFleet) do(addr string, words ...string) {
	tf.t.Helper()
	c, err := rueidis.NewClient(members.Single(rueidis.ClientOption{}, addr, 5*time.Second, 5*time.Second))
	must(tf.t, err)
	defer c.Close()
	must(tf.t, c.Do(tf.t.Context(), c.B().Arbitrary(words...).Build()).Error())
}

// change changes the map.
func (tf *testFleet) change(edit func(m *directory.Map)) {
	tf.t.Helper()
	m, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	next := m.Clone()
	next.Epoch++
	edit(next)
	must(tf.t, tf.dir.Change(tf.t.Context(), m.Epoch, next))
}

// codes returns the checks with the severities and codes of all findings but those that are well.
func codes(all []Finding) (list []string) {
	for _, f := range all {
		if code := fmt.Sprintf("%s %s %s", f.Check, f.Severity, f.Code); f.Severity != finding.OK && !slices.Contains(list, code) {
			list = append(list, code)
		}
	}
	slices.Sort(list)
	return list
}
