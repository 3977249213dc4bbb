package conformance

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/test/redistest"
)

// lossFleetServers are a fleet of one partition with a replica. The map has the master by the address of a proxy.
type lossFleetServers struct {
	directories, master, replica *redistest.Server
	way                          *chaos.Proxy
}

func startLossFleet(t *testing.T) *lossFleetServers {
	t.Helper()
	member := func() *redistest.Server {
		return redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0", "--min-replicas-max-lag", "2"}})
	}
	f := &lossFleetServers{directories: redistest.Durable(t), master: member(), replica: member()}
	f.way = newWay(t, f.master)
	_, err := grow.Init(t.Context(), f.open(t, &network{}), []grow.Partition{{
		Master:   directory.Member{Addr: f.way.Addr(), Node: "one"},
		Replicas: []directory.Member{{Addr: f.replica.Addr(), Node: "two"}},
	}}, grow.Config{RestartTimeout: -1})
	must(t, "Init", err)
	return f
}

// direct is a network in which the master is reached without the proxy.
func (f *lossFleetServers) direct() *network {
	return &network{to: map[string]string{f.way.Addr(): f.master.Addr()}}
}

// open opens the directory.
func (f *lossFleetServers) open(t *testing.T, by *network) *directory.Directory {
	t.Helper()
	option := rueidis.ClientOption{InitAddress: []string{f.directories.Addr()}}
	by.use(&option)
	dir, err := directory.Dial(option)
	must(t, "the directory", err)
	t.Cleanup(dir.Close)
	return dir
}

// fleet returns the fleet as a program sees it.
func (f *lossFleetServers) fleet(t *testing.T, by *network, wait int) *fleet.Fleet {
	t.Helper()
	cfg := fleet.Config{WaitReplicas: wait, Logger: slog.New(slog.DiscardHandler)}
	by.use(&cfg.Option)
	opened, err := fleet.Open(t.Context(), f.open(t, by), cfg)
	must(t, "Open", err)
	t.Cleanup(opened.Close)
	return opened
}

// runAgent runs an agent until the test ends, and returns when it has told the master to take no writes without a replica.
func (f *lossFleetServers) runAgent(t *testing.T, by *network) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	opened, ended := f.fleet(t, by, 0), make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{Fleet: opened, Interval: 150 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	redistest.Eventually(t, "the agent has set up the master", func() bool {
		return f.master.Info("replication")["min_slaves_good_slaves"] == "1"
	})
}

// awaitSynced returns when the replica has all that is confirmed.
func (f *lossFleetServers) awaitSynced(t *testing.T) {
	t.Helper()
	r := redistest.Replication{Master: f.master, Replicas: []*redistest.Server{f.replica}}
	r.AwaitSynced(t)
}

// replaced waits until the replica is the master.
func (f *lossFleetServers) replaced(t *testing.T) {
	t.Helper()
	dir := f.open(t, &network{})
	redistest.Eventually(t, "the agent has made the replica the master", func() bool {
		m, err := dir.Confirm(t.Context(), 0)
		return err == nil && m.Partitions[0].Master.Addr == f.replica.Addr() && !m.Partitions[0].ReadOnly
	})
}

// lossFleet replaces a master whose replica does not hear of it for a moment before it dies.
func lossFleet(wait int) func(t *testing.T, l *steady) {
	return func(t *testing.T, l *steady) {
		t.Helper()
		f := startLossFleet(t)
		f.runAgent(t, f.direct())
		l.timeout = time.Second
		l.start(f.fleet(t, f.direct(), wait).Client(), f.fleet(t, f.direct(), 0).Client())
		l.backlog()
		l.seal()
		f.awaitSynced(t)
		speak := sync.OnceFunc(f.way.Silence())
		defer speak()
		l.uncopied(wait)
		f.master.Kill()
		f.way.Cut()
		speak()
		f.replaced(t)
		l.stopWriting() // with wait there is no replica
		l.resume()
		l.drain()
	}
}

// uncopied returns when the master has writes that its replica has not.
func (l *steady) uncopied(wait int) {
	l.t.Helper()
	if wait == 0 {
		l.confirms(unsent)
		return
	}
	l.awaitCode("uncertain")
}

// lossFleetSplit leaves a master alone with the writers, while the directory, the agent, the replica and the worker are on the other
// side of a network that was cut.
func lossFleetSplit(wait int) func(t *testing.T, l *steady) {
	return func(t *testing.T, l *steady) {
		t.Helper()
		f := startLossFleet(t)
		f.runAgent(t, &network{})
		writers := f.direct()
		l.start(f.fleet(t, writers, wait).Client(), f.fleet(t, &network{}, 0).Client())
		l.backlog()
		l.seal()
		f.awaitSynced(t)
		speak := sync.OnceFunc(f.way.Silence())
		defer speak()
		writers.lose(f.directories.Addr(), f.replica.Addr())
		f.replaced(t)
		written := l.count()
		l.resume()
		speak()
		l.drain()
		if n := l.count(); n > written {
			t.Errorf("%d writes were confirmed by the old master after another one had its place", n-written)
		}
	}
}
