package conformance

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// unsent is how many messages are confirmed while the replicas get none of them.
const unsent = 60

// configure sets parameters of a server.
func configure(t *testing.T, server *redistest.Server, settings ...string) {
	t.Helper()
	client := server.Client(t)
	must(t, "CONFIG SET", client.Do(t.Context(), client.B().Arbitrary("CONFIG", "SET").Args(settings...).Build()).Error())
}

// lossSentinel replaces a master whose replicas have lost their links a moment before it dies. A lease that was acquired in
// that moment has a second holder.
func lossSentinel(t *testing.T, l *steady) {
	servers := redistest.Sentinels(t, 2)
	client := servers.Client(t)
	l.start(client, servers.Client(t))
	l.backlog()
	master := servers.Data[0]
	l.seal()
	servers.AwaitSynced()
	for _, replica := range servers.Data[1:] {
		replica.CutLink()
	}
	first := lossLease(t, client, l.name, "first")
	l.confirms(unsent)
	master.Kill()
	for _, replica := range servers.Data[1:] {
		replica.MendLink()
	}
	servers.Replaced(master)
	l.resume()
	second := lossLease(t, client, l.name, "second")
	t.Logf("the lease has two holders, with the fences %d and %d", first.Fence, second.Fence)
	l.handles(60)
	l.drain()
}

func lossLease(t *testing.T, client rueidis.Client, name, token string) *lease.Lease {
	t.Helper()
	locker, err := lease.New(client, lease.Config{})
	must(t, "lease.New", err)
	held, err := locker.Acquire(t.Context(), name, time.Minute, lease.AcquireConfig{Token: token})
	must(t, "Acquire", err)
	return held
}

// lossSentinelMinReplicas is lossSentinel with masters that take no writes alone.
func lossSentinelMinReplicas(t *testing.T, l *steady) {
	servers := redistest.Sentinels(t, 2)
	for _, server := range servers.Data {
		configure(t, server, "min-replicas-to-write", "1", "min-replicas-max-lag", "10")
	}
	l.start(servers.Client(t), servers.Client(t))
	l.backlog()
	master := servers.Data[0]
	l.seal()
	servers.AwaitSynced()
	for _, replica := range servers.Data[1:] {
		replica.CutLink()
	}
	l.refused(master)
	master.Kill()
	for _, replica := range servers.Data[1:] {
		replica.MendLink()
	}
	servers.Replaced(master)
	l.resume()
	l.handles(60)
	l.drain()
}

// refused returns when a master takes no writes, and checks that none is confirmed from then on.
func (l *steady) refused(master *redistest.Server) {
	l.t.Helper()
	redistest.Eventually(l.t, "the master refuses writes", func() bool {
		return master.Info("replication")["min_slaves_good_slaves"] == "0"
	})
	client := master.Client(l.t)
	err := client.Do(l.t.Context(), client.B().Set().Key("{"+l.name+"}").Value("").Build()).Error()
	if err == nil {
		l.t.Error("a master without replicas takes a write")
	}
}

// lossSentinelWait is lossSentinel with writers that wait for both replicas by themselves.
func lossSentinelWait(t *testing.T, l *steady) {
	servers := redistest.Sentinels(t, 2)
	client := servers.Client(t)
	queue := openQueue(t, client, l.name)
	l.write = func(ctx context.Context, d fairqueue.Draft) error {
		return confirmedBy(ctx, client, "{"+l.name+"}", 2, func() error { return second(queue.Write(ctx, d)) })
	}
	l.start(client, servers.Client(t))
	l.backlog()
	master := servers.Data[0]
	l.seal()
	for _, replica := range servers.Data[1:] {
		replica.CutLink()
	}
	l.awaitCode("wait")
	master.Kill()
	for _, replica := range servers.Data[1:] {
		replica.MendLink()
	}
	servers.Replaced(master)
	l.stopWriting() // there are no two replicas
	l.resume()
	l.drain()
}

// errWait means that too few replicas had a write in time.
var errWait = errors.New("too few replicas")

// confirmedBy writes, and returns when so many replicas have it. A connection that was there before the write waits: a write of its
// own comes behind the first one in the stream of replication, and it leads to no other master.
func confirmedBy(ctx context.Context, client rueidis.Client, key string, replicas int64, write func() error) error {
	return client.Dedicated(func(c rueidis.DedicatedClient) error {
		if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
			return err
		}
		if err := write(); err != nil {
			return err
		}
		for _, r := range c.DoMulti(ctx, c.B().Set().Key(key).Value("").Build(), c.B().Wait().Numreplicas(replicas).Timeout(200).Build()) {
			if err := r.Error(); err != nil {
				return err
			}
			if n, err := r.AsInt64(); err == nil && n < replicas {
				return errWait
			}
		}
		return nil
	})
}

func lossCluster(t *testing.T, l *steady) {
	servers := redistest.Cluster(t, clusterMasters, 1)
	key := "mr:queue:{" + l.name + "}"
	l.start(servers.Client(t), servers.Client(t))
	l.backlog()
	_, port, err := net.SplitHostPort(servers.MasterOf(key).Addr())
	must(t, "an address", err)
	at := slices.IndexFunc(servers.Nodes, func(s *redistest.Server) bool { return s.Info("replication")["master_port"] == port })
	l.seal()
	servers.AwaitSynced(key)
	servers.Nodes[at].CutLink()
	l.confirms(unsent)
	servers.Failover(key)
	l.resume()
	l.handles(60)
	l.drain()
}

// splitLasts is for how long a network is split.
const splitLasts = 4 * time.Second

// lossSplit leaves a master alone with the writers, while Sentinels, a replica and the worker are on the other side of a network
// that was cut. Then the network is whole again, and the Sentinels make the old master a replica.
func lossSplit(settings ...string) func(t *testing.T, l *steady) {
	return func(t *testing.T, l *steady) {
		t.Helper()
		master := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
		way := newWay(t, master) // of all but the writers
		host, port, err := net.SplitHostPort(way.Addr())
		must(t, "an address", err)
		replica := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--replicaof", host, port}})
		r := &redistest.Replication{Master: master, Replicas: []*redistest.Server{replica}}
		r.AwaitLinks(t)
		servers := redistest.Watch(t, r, way.Addr())
		if len(settings) > 0 {
			configure(t, master, settings...)
		}
		side := &network{to: map[string]string{way.Addr(): master.Addr()}}
		l.start(servers.Client(t, side.use), servers.Client(t))
		l.backlog()
		l.seal()
		r.AwaitSynced(t)
		for _, sentinel := range servers.Sentinels {
			side.lose(sentinel.Addr())
		}
		speak := sync.OnceFunc(way.Silence())
		defer speak()
		began := time.Now()
		servers.Replaced(master)
		if len(settings) > 0 {
			l.refused(master)
		}
		written := l.count()
		redistest.Eventually(t, "the split has lasted for some seconds, and a master that was replaced goes on if nothing keeps it from that", func() bool {
			return time.Since(began) > splitLasts && (len(settings) > 0 || l.count() > written+unsent)
		})
		if n := l.count() - written; len(settings) > 0 && n > lossWriters { // answered before, and counted later
			t.Errorf("%d writes were confirmed by a master without replicas", n)
		}
		l.stopWriting()
		l.resume()
		speak()
		client := master.Client(t)
		redistest.Eventually(t, "the old master is a replica", func() bool {
			text, err := client.Do(t.Context(), client.B().Info().Section("replication").Build()).ToString()
			return err == nil && strings.Contains(text, "role:slave") // the Sentinels end its connections meanwhile
		})
		l.drain()
	}
}
