package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// Settings for tests. With quick the fence works as always, only faster; with calm it
// does not close while a busy machine stands still for a moment.
var (
	quick = directory.Settings{ViewTTL: 600 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: 700 * time.Millisecond}
	calm  = directory.Settings{ViewTTL: 5 * time.Second, ReplyTimeout: 5 * time.Second, PlacementTTL: 5 * time.Second}
)

// slowly has time to connect on a busy machine.
var slowly = rueidis.ClientOption{Dialer: net.Dialer{Timeout: 10 * time.Second}}

// onTrust takes boot fences on trust: servers of most tests are restarted as they are.
var onTrust = grow.Config{Option: slowly, RestartTimeout: -1}

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
	if _, err := grow.Init(t.Context(), tf.dir, tf.servers(partitions, replicas), grow.Config{Settings: settings, Option: slowly, RestartTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	return tf
}

// servers starts servers for more partitions.
func (tf *testFleet) servers(partitions, replicas int) []grow.Partition {
	tf.t.Helper()
	made := make([]grow.Partition, partitions)
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
func (tf *testFleet) open(cfg Config) *Fleet {
	tf.t.Helper()
	return tf.openBy(tf.dir, cfg)
}

// openBy is open with a directory of the caller's own.
func (tf *testFleet) openBy(dir *directory.Directory, cfg Config) *Fleet {
	tf.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Option.Dialer.Timeout == 0 {
		cfg.Option.Dialer = slowly.Dialer
	}
	f, err := Open(tf.t.Context(), dir, cfg)
	if err != nil {
		tf.t.Fatal(err)
	}
	tf.t.Cleanup(f.Close)
	return f
}

// use has the fleet place tags by other scripts.
func (f *Fleet) use(scripts *script.Library) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts = scripts
	for _, p := range f.view.Load().partitions {
		p.runner.Scripts = scripts
	}
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

// restart starts a master again with all its data, and stores its new run in the map, as an
// agent does after it has examined it.
func (tf *testFleet) restart(partition int) {
	tf.t.Helper()
	tf.masters[partition].Restart()
	tf.change(func(m *directory.Map) {
		m.Partitions[partition].Master.Run = tf.masters[partition].Info("server")["run_id"]
	})
}

// put repeats a set whose outcome is uncertain.
func put(ctx context.Context, c rueidis.Client, key, value string) error {
	return retry.Policy{}.Do(ctx, func(int) error { return set(ctx, c, key, value) })
}

func set(ctx context.Context, c rueidis.Client, key, value string) error {
	return c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error()
}

func get(ctx context.Context, c rueidis.Client, key string) (string, error) {
	value, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return value, err
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

// growing adds partitions on trust, and runs an agent that opens them.
func (tf *testFleet) growing(dir *directory.Directory) grow.Config {
	tf.t.Helper()
	servers := failover.NewRedis(slowly)
	tf.t.Cleanup(servers.Close)
	cfg := onTrust
	cfg.Agent = failover.New(dir, servers, failover.Config{Interval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}).Help
	return cfg
}
