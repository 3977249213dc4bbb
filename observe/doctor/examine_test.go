package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/test/redistest"
)

// severities returns the findings as check -> severity.
func severities(findings []Finding) map[string]Severity {
	m := make(map[string]Severity)
	for _, f := range findings {
		m[f.Check] = f.Severity
	}
	return m
}

// examined examines and checks the properties that every report has.
func examined(t *testing.T, client rueidis.Client) Report {
	t.Helper()
	r, err := Examine(t.Context(), client, Config{})
	if err != nil {
		t.Fatal(err)
	}
	wantSound(t, r)
	return r
}

func wantSound(t *testing.T, r Report) {
	t.Helper()
	failed := false
	for about, findings := range r.Parts() {
		for _, f := range findings {
			failed = failed || f.Severity == Critical
			if f.Code == "" || (f.Advice == "") != (f.Severity == OK) {
				t.Errorf("%s: finding %+v, want a code, and advice unless all is well", about, f)
			}
			if f.Text == "" {
				t.Errorf("%s: finding %+v, want a text", about, f)
			}
		}
	}
	if r.OK == failed {
		t.Errorf("OK = %t of a report in which a check failed: %t", r.OK, failed)
	}
}

func TestRealServers(t *testing.T) {
	t.Parallel()
	healthy := func(change map[string]Severity) map[string]Severity {
		want := map[string]Severity{
			"version": OK, "eviction": OK, "memory": OK, "persistence": OK,
			"replicas": Note, "scripts": OK, "clock": OK, "slowlog": OK, "load": OK, "connections": OK,
		}
		maps.Copy(want, change)
		return want
	}
	tests := []struct {
		name    string
		opts    redistest.Options
		want    map[string]Severity
		verdict string
	}{
		{"fit", redistest.Options{AOF: true, MaxMemory: "64mb"}, healthy(nil), "fit for work"},
		{
			"bare", redistest.Options{},
			healthy(map[string]Severity{"memory": Note, "persistence": Warning}), "fit for work, with 1 warning",
		},
		{
			"evicting", redistest.Options{AOF: true, MaxMemory: "64mb", Policy: "allkeys-lru"},
			healthy(map[string]Severity{"eviction": Critical}), "not fit for work: 1 critical, 0 warnings",
		},
		{
			"volatile", redistest.Options{AOF: true, MaxMemory: "64mb", Policy: "volatile-ttl"},
			healthy(map[string]Severity{"eviction": Note}), "fit for work",
		},
		{
			"full", redistest.Options{AOF: true, MaxMemory: "1mb"},
			healthy(map[string]Severity{"memory": Warning}), "fit for work, with 1 warning",
		},
		{
			"snapshots", redistest.Options{MaxMemory: "64mb", Args: []string{"--save", "3600", "1"}},
			healthy(map[string]Severity{"persistence": Note}), "fit for work",
		},
		{
			"mute", redistest.Options{AOF: true, MaxMemory: "64mb", Args: []string{"--rename-command", "CONFIG", "", "--rename-command", "EVALSHA", ""}},
			healthy(map[string]Severity{"scripts": Critical}), "not fit for work: 1 critical, 0 warnings",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.opts.Args = append(test.opts.Args, "--slowlog-log-slower-than", "-1") // the machine may be slow
			r := examined(t, redistest.Start(t, test.opts).Client(t))
			if len(r.Nodes) != 1 {
				t.Fatalf("nodes = %+v, want one", r.Nodes)
			}
			if diff := cmp.Diff(test.want, severities(r.Nodes[0].Findings)); diff != "" {
				t.Errorf("severities (-want +got):\n%s", diff)
			}
			if got := r.Verdict(); got != test.verdict {
				t.Errorf("Verdict = %q, want %q", got, test.verdict)
			}
		})
	}
}

// TestSilentServers examines servers that say nothing of themselves.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	setUser := admin.B().AclSetuser().Username("app").Rule("on", ">secret", "~*", "+@all", "-info", "-config", "-slowlog").Build()
	if err := admin.Do(t.Context(), setUser).Error(); err != nil {
		t.Fatal(err)
	}
	wantSilent(t, server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" }))

	mini, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{miniredis.RunT(t).Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mini.Close()
	wantSilent(t, mini)
}

// gathering is a client of several nodes, each of which answers when all are asked.
type gathering struct {
	rueidis.Client
	nodes map[string]rueidis.Client
}

func (g gathering) Nodes() map[string]rueidis.Client { return g.nodes }

type gathered struct {
	rueidis.Client
	asked *sync.Once
	all   *sync.WaitGroup
}

func (g gathered) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	g.asked.Do(g.all.Done)
	g.all.Wait()
	return g.Client.Do(ctx, command)
}

// TestAllAtOnce: no node waits until another one is done.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	const count = 4
	client := redistest.Shared(t).Client(t)
	g := gathering{client, map[string]rueidis.Client{}}
	var all sync.WaitGroup
	all.Add(count)
	for i := range count {
		g.nodes[fmt.Sprint(i)] = gathered{client, &sync.Once{}, &all}
	}
	nodes := examined(t, g).Nodes
	if len(nodes) != count {
		t.Fatalf("%d nodes, want %d", len(nodes), count)
	}
	for i, node := range nodes {
		if _, silent := severities(node.Findings)["reach"]; node.Addr != fmt.Sprint(i) || silent {
			t.Errorf("node %d is %s, with the findings %v", i, node.Addr, node.Findings)
		}
	}
}

func wantSilent(t *testing.T, client rueidis.Client) {
	t.Helper()
	want := map[string]Severity{
		"version": Note, "eviction": Note, "memory": Note, "persistence": Note,
		"replicas": Note, "scripts": OK, "clock": OK, "slowlog": Note, "load": Note, "connections": Note,
	}
	if diff := cmp.Diff(want, severities(examined(t, client).Nodes[0].Findings)); diff != "" {
		t.Errorf("severities (-want +got):\n%s", diff)
	}
}

// TestGoneServer examines a server that ended after its client was made.
func TestGoneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	server.Kill()
	r := examined(t, client)
	if diff := cmp.Diff(map[string]Severity{"reach": Critical}, severities(r.Nodes[0].Findings)); diff != "" {
		t.Errorf("severities (-want +got):\n%s", diff)
	}
}

// TestHangingServer: the report names the doctor's limit, not a deadline of the caller's.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	server.Pause()
	defer server.Resume()
	r := examined(t, client)
	if got, want := r.Nodes[0].Findings[0].Text, "no answer within 5s"; got != want {
		t.Errorf("finding = %q, want %q", got, want)
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	set := redistest.Replicated(t, 1)
	master, replica := set.Master.Client(t), set.Replicas[0].Client(t)
	redistest.Eventually(t, "the master counts its replica as in step", func() bool {
		return severities(examined(t, master).Nodes[0].Findings)["replicas"] == OK
	})
	if got := severities(examined(t, replica).Nodes[0].Findings)["replicas"]; got != Critical {
		t.Errorf("a replica by itself: %s, want %s", got, Critical)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 1)
	r := examined(t, cluster.Client(t))
	var got, want []string
	for _, node := range r.Nodes {
		got = append(got, node.Addr)
	}
	for _, master := range cluster.Nodes[:3] {
		want = append(want, master.Addr())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	f := openFleet(t, startPinned(t), startPinned(t))
	r, err := Examine(t.Context(), f.Client(), Config{Fleet: f})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing was set up but two masters and a directory.
	want := map[string]Severity{
		"state": OK, "members": OK, "boot-fence": Note, "settings": Warning, "replication": Warning, "directory": OK,
		"nodes": Note, "spares": OK, "snapshots": Warning, "versions": OK, "agents": Critical, "clocks": OK,
	}
	if diff := cmp.Diff(want, severities(r.Fleet)); diff != "" {
		t.Errorf("severities of the fleet (-want +got):\n%s", diff)
	}
	if len(r.Nodes) != 2 || severities(r.Nodes[0].Findings)["scripts"] != OK || severities(r.Nodes[1].Findings)["clock"] != OK {
		t.Fatalf("nodes = %+v, want both masters, in order", r.Nodes)
	}
	if runtime.GOOS == "linux" {
		shared := "CPU 0 is shared by " + r.Nodes[0].Addr + ", " + r.Nodes[1].Addr + ", which are pinned to it"
		if len(r.Host) == 0 || r.Host[0].Severity != Warning || r.Host[0].Text != shared {
			t.Errorf("host = %+v, want the warning: %s", r.Host, shared)
		}
	}
}

func startPinned(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--server_cpulist", "0"}})
}

// openFleet makes a fleet of masters and opens it.
func openFleet(t *testing.T, masters ...*redistest.Server) *fleet.Fleet {
	t.Helper()
	directories := redistest.Durable(t)
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{directories.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	var partitions []grow.Partition
	for _, m := range masters {
		partitions = append(partitions, grow.Partition{Master: directory.Member{Addr: m.Addr()}})
	}
	if _, err := grow.Init(t.Context(), dir, partitions, grow.Config{RestartTimeout: -1}); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Open(t.Context(), dir, fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}
