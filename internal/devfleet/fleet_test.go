package devfleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/test/redistest"
)

// The zero Config is three nodes and four partitions with a replica each.
func TestStart(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	f := start(t, Config{Binary: redistest.Binary(t), Dir: parent, Settings: quick, MaxMemory: "8mb"})
	dir := f.Dir()
	if filepath.Dir(dir) != parent {
		t.Errorf("the servers work in %s, want a folder in %s", dir, parent)
	}

	placement, err := plan.Place([]string{"node-0", "node-1", "node-2"}, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	servers, m := f.Servers(), mapOf(t, f)
	if got, want := len(servers), 8; got != want {
		t.Fatalf("%d servers, want %d", got, want)
	}
	for i, nodes := range placement {
		master, replica := servers[2*i], servers[2*i+1]
		if got, want := []string{master.Node, replica.Node}, nodes; !slices.Equal(got, want) {
			t.Errorf("partition %d is on %v, want %v", i, got, want)
		}
		want := directory.Partition{
			ID: i, Epoch: 1, Phase: directory.Open,
			Master:   directory.Member{Addr: master.Addr, Node: nodes[0], Boot: directory.BootFenced},
			Replicas: []directory.Member{{Addr: replica.Addr, Node: nodes[1], Boot: directory.BootFenced}},
		}
		if diff := cmp.Diff(want, m.Partitions[i], cmpopts.IgnoreFields(directory.Member{}, "Run"), cmpopts.IgnoreFields(directory.Partition{}, "History")); diff != "" {
			t.Errorf("partition %d of the map (-want +got):\n%s", i, diff)
		}
		if got := ask(t, master, "ROLE"); !strings.HasPrefix(got, "master") {
			t.Errorf("ROLE of %s = %s", master, got)
		}
		_, port, _ := net.SplitHostPort(master.Addr)
		if got, want := ask(t, replica, "INFO", "replication"), "master_port:"+port+"\r\nmaster_link_status:up"; !strings.Contains(got, want) {
			t.Errorf("%s has not %q:\n%s", replica, want, got)
		}
		for _, s := range servers[2*i : 2*i+2] {
			wantDir := filepath.Join(dir, s.Node, fmt.Sprintf("partition-%d", i))
			if got := s.Proc.Dir(); s.Partition != i || got != wantDir {
				t.Errorf("%s of %d works in %s, want %s", s, i, got, wantDir)
			}
			if _, err := os.Stat(filepath.Join(wantDir, "server.log")); err != nil {
				t.Error(err)
			}
			for name, want := range map[string]string{
				"appendonly": "no", "save": "", "min-replicas-max-lag": "2", "maxmemory": "8388608", "bind": "127.0.0.1",
			} {
				if got := setting(t, s, name); got != want {
					t.Errorf("%s of %s = %q, want %q", name, s, got, want)
				}
			}
		}
	}
	if diff := cmp.Diff(quick, m.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}

	d := f.Directory()
	if got, want := d.Proc.Dir(), filepath.Join(dir, "directory"); got != want || d.Addr != f.DirectoryAddr() {
		t.Errorf("the directory at %s works in %s, want %s in %s", d.Addr, got, f.DirectoryAddr(), want)
	}
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory": "0", "replicaof": ""} {
		if got := setting(t, d, name); got != want {
			t.Errorf("%s of the directory = %q, want %q", name, got, want)
		}
	}
}

func TestFleetServes(t *testing.T) {
	t.Parallel()
	cfg := small(t)
	cfg.Settings = directory.Settings{ViewTTL: 10 * time.Second, ReplyTimeout: 10 * time.Second, PlacementTTL: 10 * time.Second} // nothing is late
	f := start(t, cfg)
	ctx := deadline(t)
	client, err := fleet.Dial(ctx, f.URL(), fleet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := client.Client()
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error(); err != nil {
		t.Errorf("SET through %s: %v", f.URL(), err)
	}
}

// A member that restarts is empty, and sends its replicas nothing.
func TestRestartedServersAreFencedAndEmpty(t *testing.T) {
	t.Parallel()
	f := start(t, small(t))
	master, replica := f.Servers()[0], f.Servers()[1]
	before := ask(t, replica, "DBSIZE")
	if err := master.Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := master.Proc.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got, want := setting(t, master, "replicaof"), "127.0.0.1 1"; got != want {
		t.Errorf("replicaof of the restarted master = %q, want %q", got, want)
	}
	if got, want := keyspace(t, master), ""; got != want {
		t.Errorf("the restarted master has %s keys, want %s", got, want)
	}
	redistest.Eventually(t, "the restarted master gives the replica nothing", func() bool {
		log, err := os.ReadFile(filepath.Join(replica.Proc.Dir(), "server.log"))
		// Redis 6.2 answers PING behind the fence, but has lost its users, and so refuses its replica's.
		return err == nil && (strings.Contains(string(log), "-MASTERDOWN") || strings.Contains(string(log), "-WRONGPASS"))
	})
	if got := ask(t, replica, "DBSIZE"); got != before || got == "0" {
		t.Errorf("the replica has %s keys, want the %s from before", got, before)
	}
}

func TestDirectoryOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	f := start(t, small(t))
	before := mapOf(t, f)
	if err := f.Directory().Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := f.Directory().Proc.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, mapOf(t, f)); diff != "" {
		t.Errorf("the map of the restarted directory (-before +after):\n%s", diff)
	}
}

func TestOnePlainServerIsAFleet(t *testing.T) {
	t.Parallel()
	f := start(t, Config{Binary: redistest.Binary(t), Nodes: 1, Partitions: 1, Replicas: NoReplicas})
	if got, want := len(f.Servers()), 1; got != want {
		t.Errorf("%d servers, want %d", got, want)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	f := start(t, small(t))
	if got, want := len(processesIn(t, f.Dir())), 3; got != want {
		t.Fatalf("%d processes in %s, want %d", got, f.Dir(), want)
	}
	if err := f.Servers()[0].Proc.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := f.Servers()[1].Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Stop(); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}
	if pids := processesIn(t, f.Dir()); len(pids) != 0 {
		t.Errorf("processes after Stop: %v, want none", pids)
	}
	if _, err := os.Stat(f.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder after Stop: %v, want it gone", err)
	}
	if err := f.AddPartition(deadline(t), 1); !errors.Is(err, ErrStopped) {
		t.Errorf("AddPartition after Stop: %v, want ErrStopped", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(t *testing.T, c *Config)
		want   string // in the error
	}{
		{"no data server starts", func(_ *testing.T, c *Config) { c.MaxMemory = "plenty" }, "argument must be a memory value"},
		{
			"one does not", func(t *testing.T, c *Config) { t.Helper(); c.Binary = failing(t, "node-1/partition-0") },
			"devfleet: the member of partition 0 on node-1: ",
		},
		{
			"the directory does not", func(t *testing.T, c *Config) { t.Helper(); c.Binary = failing(t, "appendfsync") },
			"devfleet: the directory: ",
		},
		{"they make no fleet", func(_ *testing.T, c *Config) { c.Settings.MaxFill = 101 }, "max-fill cannot be 101"},
		{"it cannot be placed", func(_ *testing.T, c *Config) { c.Replicas = 2 }, "3 copies of a partition need as many nodes, and there are 2"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := small(t)
			cfg.Dir = t.TempDir()
			tc.change(t, &cfg)
			if _, err := Start(deadline(t), cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start: %v, want %q", err, tc.want)
			}
			wantEmpty(t, cfg.Dir)
		})
	}
	t.Run("nobody waits for it", func(t *testing.T) {
		t.Parallel()
		cfg := small(t)
		cfg.Dir = t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Start(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("Start: %v, want context.Canceled", err)
		}
		wantEmpty(t, cfg.Dir)
	})
}

func TestNoServerToRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Start(deadline(t), Config{Binary: filepath.Join(dir, "none"), Dir: dir}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start without a binary: %v, want that it does not exist", err)
	}
	wantEmpty(t, dir)
}
