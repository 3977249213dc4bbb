package settings

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
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redistest"
)

// quick are settings by which the fence is what it is, only faster.
var quick = directory.Settings{ViewTTL: 600 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: 700 * time.Millisecond}

// slowly has time to connect on a busy machine.
var slowly = rueidis.ClientOption{Dialer: net.Dialer{Timeout: 10 * time.Second}}

// testFleet is a fleet of one partition, on real servers.
type testFleet struct {
	t        *testing.T
	dir      *directory.Redis
	replicas []*redistest.Server
}

func startFleet(t *testing.T, replicas int) *testFleet {
	t.Helper()
	dirs := redistest.Start(t, redistest.Options{TCP: true, AOF: true})
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{dirs.Addr()}})
	must(t, err)
	t.Cleanup(dir.Close)
	tf := &testFleet{t: t, dir: dir}
	master := redistest.Start(t, redistest.Options{TCP: true, AOF: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	p := grow.Partition{Master: directory.Member{Addr: master.Addr()}}
	for i := range replicas {
		server := redistest.Start(t, redistest.Options{TCP: true})
		tf.replicas = append(tf.replicas, server)
		p.Replicas = append(p.Replicas, directory.Member{Addr: server.Addr(), Node: fmt.Sprint("r", i)})
	}
	_, err = grow.Init(t.Context(), dir, []grow.Partition{p}, grow.Config{Settings: quick, Option: slowly, RestartTimeout: -1})
	must(t, err)
	return tf
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

func (tf *testFleet) present() *directory.Map {
	tf.t.Helper()
	m, err := tf.dir.Confirm(tf.t.Context(), 0)
	must(tf.t, err)
	return m
}

// announce publishes a change as a command that dies at once.
func (tf *testFleet) announce(edit func(s *directory.Settings)) *directory.Map {
	tf.t.Helper()
	m, err := replace(tf.t.Context(), tf.dir, tf.present(), func(m *directory.Map) {
		m.Next = &directory.Next{Since: m.Epoch, Settings: m.Settings}
		edit(&m.Next.Settings)
	})
	must(tf.t, err)
	return m
}

func set(ctx context.Context, f *fleet.Fleet, key string) error {
	c := f.Client()
	return c.Do(ctx, c.B().Set().Key(key).Value("x").Build()).Error()
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
