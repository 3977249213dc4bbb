package grow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Settings for tests. The quick ones only shorten the fence's times; with the calm ones it
// does not close while a busy machine stands still for a moment.
var (
	quick = directory.Settings{ViewTTL: 600 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: 700 * time.Millisecond}
	calm  = directory.Settings{ViewTTL: 5 * time.Second, ReplyTimeout: 5 * time.Second, PlacementTTL: 5 * time.Second}
)

// slowly has time to connect on a busy machine.
var slowly = rueidis.ClientOption{Dialer: net.Dialer{Timeout: 10 * time.Second}}

// onTrust takes boot fences on trust: servers of most tests are restarted as they are.
var onTrust = Config{Option: slowly, RestartTimeout: -1}

// testFleet is a fleet of real servers.
type testFleet struct {
	t       *testing.T
	dirs    *redistest.Server
	dir     *directory.Directory
	masters []*redistest.Server
	copies  [][]*redistest.Server // replicas by partition
}

// startFleet starts a fleet whose partitions have that many replicas each.
func startFleet(t *testing.T, partitions, replicas int, settings directory.Settings) *testFleet {
	t.Helper()
	tf := &testFleet{t: t, dirs: redistest.Durable(t)}
	tf.dir = tf.dial(tf.dirs.Addr())
	if _, err := Init(t.Context(), tf.dir, tf.servers(partitions, replicas), Config{Settings: settings, Option: slowly, RestartTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	return tf
}

// servers starts servers for more partitions.
func (tf *testFleet) servers(partitions, replicas int) []Partition {
	tf.t.Helper()
	made := make([]Partition, partitions)
	for i := range made {
		master := redistest.Start(tf.t, redistest.Options{TCP: true, AOF: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
		tf.masters = append(tf.masters, master)
		made[i].Master = directory.Member{Addr: master.Addr(), Node: fmt.Sprint("n", len(tf.masters))}
		var copies []*redistest.Server
		for j := range replicas {
			replica := redistest.Start(tf.t, redistest.Options{TCP: true})
			copies = append(copies, replica)
			made[i].Replicas = append(made[i].Replicas, directory.Member{Addr: replica.Addr(), Node: fmt.Sprint("r", len(tf.masters), "-", j)})
		}
		tf.copies = append(tf.copies, copies)
	}
	return made
}

// growing adds partitions on trust, and runs an agent that opens them.
func (tf *testFleet) growing(dir *directory.Directory) Config {
	tf.t.Helper()
	servers := failover.NewRedis(slowly)
	tf.t.Cleanup(servers.Close)
	cfg := onTrust
	cfg.Agent = failover.New(dir, servers, failover.Config{Interval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}).Help
	return cfg
}

func (tf *testFleet) dial(addr string) *directory.Directory {
	tf.t.Helper()
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		tf.t.Fatal(err)
	}
	tf.t.Cleanup(dir.Close)
	return dir
}

// open opens the fleet as one process does.
func (tf *testFleet) open(cfg fleet.Config) *fleet.Fleet {
	tf.t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Option.Dialer = slowly.Dialer
	f, err := fleet.Open(tf.t.Context(), tf.dir, cfg)
	must(tf.t, err)
	tf.t.Cleanup(f.Close)
	return f
}

// change changes the map as an agent would.
func (tf *testFleet) change(change func(m *directory.Map)) *directory.Map {
	tf.t.Helper()
	m, err := tf.dir.Confirm(tf.t.Context(), 0)
	if err != nil {
		tf.t.Fatal(err)
	}
	next := m.Clone()
	next.Epoch++
	change(next)
	if err := tf.dir.Change(tf.t.Context(), m.Epoch, next); err != nil {
		tf.t.Fatal(err)
	}
	return next
}

// put sets a key, and repeats a set that may or may not have been done.
func put(ctx context.Context, c rueidis.Client, key, value string) error {
	return retry.Policy{}.Do(ctx, func(int) error { return set(ctx, c, key, value) })
}

func set(ctx context.Context, c rueidis.Client, key, value string) error {
	return c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error()
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
