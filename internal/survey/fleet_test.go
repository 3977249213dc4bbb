package survey

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/test/redistest"
)

// county is a fleet of two partitions, whose second one has a replica.
type county struct {
	servers []*redistest.Server // masters
	dirs    *redistest.Server
	dir     *directory.Directory
	fleet   *fleet.Fleet
}

func found(t *testing.T) *county {
	t.Helper()
	ctx := t.Context()
	start := func() *redistest.Server {
		return redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	}
	c := &county{servers: []*redistest.Server{start(), start()}, dirs: redistest.Durable(t)}
	replica := start()
	c.dir = must(directory.Dial(rueidis.ClientOption{InitAddress: []string{c.dirs.Addr()}}))(t)
	t.Cleanup(c.dir.Close)
	slowly := rueidis.ClientOption{Dialer: net.Dialer{Timeout: 10 * time.Second}} // on a busy machine
	partitions := []grow.Partition{
		{Master: directory.Member{Addr: c.servers[0].Addr(), Node: "a"}},
		{Master: directory.Member{Addr: c.servers[1].Addr(), Node: "b"}, Replicas: []directory.Member{{Addr: replica.Addr(), Node: "c"}}},
	}
	calm := directory.Settings{ViewTTL: 5 * time.Second, ReplyTimeout: 5 * time.Second, PlacementTTL: 5 * time.Second}
	must(grow.Init(ctx, c.dir, partitions, grow.Config{Settings: calm, Option: slowly, RestartTimeout: -1}))(t)
	c.fleet = must(fleet.Open(ctx, c.dir, fleet.Config{Option: slowly, Logger: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(c.fleet.Close)
	return c
}

// TestFleet: a fleet's structures are found on all partitions, and so is how it is;
// a partition that is lost takes its own structures along and no others.
func TestFleet(t *testing.T) {
	t.Parallel()
	c := found(t)
	ctx, client := t.Context(), c.fleet.Client()
	if err := c.dir.Note(ctx, directory.Event{Agent: "me", Partition: 1, Epoch: 1, What: "nothing happened"}); err != nil {
		t.Fatal(err)
	}
	saved := directory.Snapshot{Partition: 1, Saved: directory.Saved{Addr: c.servers[1].Addr(), Took: time.Second}}
	if err := c.dir.Snapped(ctx, time.Now(), saved); err != nil {
		t.Fatal(err)
	}
	home := map[int]int{} // queues by partition
	for i := range 8 {
		q := must(fairqueue.New(client, fmt.Sprint("q", i), fairqueue.Config{}))(t)
		must(q.Write(ctx, fairqueue.Draft{Tenant: "a"}))(t)
		home[must(c.fleet.Locate(ctx, q.Name()))(t).Partition]++
	}
	if home[0] == 0 || home[1] == 0 {
		t.Fatalf("all queues are on one partition: %v", home)
	}
	s := open(t, Config{Client: client, Fleet: c.fleet})
	var v *View
	redistest.Eventually(t, "all members are seen to serve", func() bool {
		v = seen(t, s)
		return v.Fleet != nil && v.Fleet.State == fleet.Healthy
	})
	if len(v.Queues) != 8 || len(v.Server.Nodes) != 2 || len(v.Troubles) > 0 {
		t.Errorf("%d queues on %d servers, troubles %v", len(v.Queues), len(v.Server.Nodes), v.Troubles)
	}
	f := v.Fleet
	if len(f.Partitions) != 2 || len(f.Events) != 1 || f.Events[0].What != "nothing happened" {
		t.Errorf("the fleet = %+v", f)
	}
	if got := f.Snapshots.Partitions; len(got) != 2 || !got[0].Saved.At.IsZero() || got[1].Saved.At.IsZero() {
		t.Errorf("snapshots = %+v", got)
	}

	if check.Count(f.Findings)[finding.OK] == 0 || time.Since(f.Checked) > checkInterval {
		t.Errorf("checked at %v: %v", f.Checked, f.Findings)
	}

	c.servers[0].Kill()
	v = must(s.survey(ctx))(t)
	if len(v.Queues) != home[1] || v.Away() != nil {
		t.Errorf("%d queues while one partition is lost, want %d; Away = %v", len(v.Queues), home[1], v.Away())
	}
	lost := map[Kind]int{}
	for _, one := range v.Troubles {
		lost[one.Kind]++
	}
	if lost[Queue] != home[0] || lost[Server] != 1 {
		t.Errorf("troubles = %v, want %d queues and a server", v.Troubles, home[0])
	}
	if got, want := v.Fleet.Partitions[0].State, fleet.Out; got != want {
		t.Errorf("the partition is %s, want %s", got, want)
	}

	c.dirs.Kill()
	v = must(s.survey(ctx))(t)
	for _, what := range []string{FleetEvents, FleetSnapshots} {
		if !slices.ContainsFunc(v.Troubles, func(t Trouble) bool { return t.Kind == Fleet && t.Name == what }) {
			t.Errorf("troubles without a directory = %v, want %s", v.Troubles, what)
		}
	}

	c.servers[1].Kill()
	at := v.At
	v, err := s.survey(ctx)
	if err == nil || !v.At.Equal(at) || len(v.Queues) != home[1] {
		t.Errorf("a look without any master = %v; the View is of %s with %d queues, want %s with %d", err, v.At, len(v.Queues), at, home[1])
	}
	if v.Fleet == nil || v.Fleet.Partitions[1].Master.State != fleet.Down {
		t.Errorf("the fleet = %+v, want its second master down", v.Fleet)
	}
}
