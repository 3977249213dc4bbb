package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

const fleetPartitions = 3

// fleetEngine is a fleet of three partitions with a replica each. A disturbance
// kills the master of a key, and its replica is made the master by the rules of
// the fence.
var fleetEngine = engine{"fleet", func(t *testing.T) running {
	t.Helper()
	directories := redistest.Durable(t)
	option := rueidis.ClientOption{InitAddress: []string{directories.Addr()}}
	dir, err := directory.Dial(option)
	must(t, "the directory", err)
	t.Cleanup(dir.Close)
	r := &runningFleet{t: t, url: "fleet://" + directories.Addr(), dir: dir, servers: map[string]*redistest.Server{}}
	partitions := make([]grow.Partition, fleetPartitions)
	for i := range partitions {
		partitions[i] = grow.Partition{Master: r.start(), Replicas: []directory.Member{r.start()}}
	}
	_, err = grow.Init(t.Context(), dir, partitions, grow.Config{RestartTimeout: -1})
	must(t, "Init", err)
	r.f, err = fleet.Open(t.Context(), dir, fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, "Open", err)
	t.Cleanup(r.f.Close)
	return r
}}

type runningFleet struct {
	t       *testing.T
	url     string
	dir     *directory.Directory
	f       *fleet.Fleet
	servers map[string]*redistest.Server
	dead    *redistest.Server
}

func (r *runningFleet) start() directory.Member {
	r.t.Helper()
	s := redistest.Start(r.t, redistest.Options{TCP: true, Args: []string{"--repl-diskless-sync-delay", "0"}})
	r.servers[s.Addr()] = s
	return directory.Member{Addr: s.Addr(), Node: fmt.Sprint("node", len(r.servers))}
}

func (r *runningFleet) client(t *testing.T) rueidis.Client {
	t.Helper()
	f, err := fleet.Dial(t.Context(), r.url, fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, "Dial", err)
	t.Cleanup(f.Close)
	return f.Client()
}

func (r *runningFleet) homes() int { return fleetPartitions }

func (r *runningFleet) home(key string) string {
	r.t.Helper()
	return fmt.Sprint(r.partition(key).ID)
}

// partition returns that of a key, by the map of now.
func (r *runningFleet) partition(key string) directory.Partition {
	r.t.Helper()
	var l fleet.Location
	err := retry.Policy{}.Do(r.t.Context(), func(int) (err error) {
		l, err = r.f.Locate(r.t.Context(), fleet.Tag(key))
		return err
	})
	must(r.t, "Locate", err)
	m, err := r.dir.Confirm(r.t.Context(), 0)
	must(r.t, "Confirm", err)
	return m.Partitions[l.Partition]
}

func (r *runningFleet) secure(key string) {
	r.t.Helper()
	p := r.partition(key)
	reached := r.servers[p.Master.Addr].Info("replication")["master_repl_offset"]
	redistest.Eventually(r.t, "the replica has what its master acknowledged", func() bool {
		has := r.servers[p.Replicas[0].Addr].Info("replication")["slave_repl_offset"]
		return len(has) > len(reached) || len(has) == len(reached) && has >= reached
	})
}

func (r *runningFleet) disturb(key string) {
	r.t.Helper()
	p := r.partition(key)
	r.dead = r.servers[p.Master.Addr]
	r.dead.Kill()
	r.change(p.ID, func(p *directory.Partition) { p.ReadOnly = true })
	m, err := r.dir.Confirm(r.t.Context(), 0)
	must(r.t, "Confirm", err)
	if !retry.Sleep(r.t.Context(), m.Grace()) { // as an agent waits that replaces a master
		r.t.Fatal("the test has ended")
	}
	replica := r.servers[p.Replicas[0].Addr].Client(r.t)
	must(r.t, "REPLICAOF", replica.Do(context.Background(), replica.B().Replicaof().No().One().Build()).Error())
	r.change(p.ID, func(p *directory.Partition) {
		p.ReadOnly = false
		p.Epoch++
		p.Master, p.Replicas = p.Replicas[0], nil
	})
}

// mend starts the server that was killed again, as a replica.
func (r *runningFleet) mend() {
	r.t.Helper()
	if r.dead == nil {
		return
	}
	m, err := r.dir.Confirm(r.t.Context(), 0)
	must(r.t, "Confirm", err)
	at := slices.IndexFunc(m.Partitions, func(p directory.Partition) bool { return len(p.Replicas) == 0 })
	r.dead.Restart()
	c := r.dead.Client(r.t)
	host, port, err := net.SplitHostPort(m.Partitions[at].Master.Addr)
	must(r.t, "an address", err)
	must(r.t, "REPLICAOF", c.Do(context.Background(), c.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
	redistest.Eventually(r.t, "it is a replica in step", func() bool {
		return r.dead.Info("replication")["master_link_status"] == "up"
	})
	r.change(at, func(p *directory.Partition) {
		p.Replicas = []directory.Member{{Addr: r.dead.Addr(), Node: "back"}}
	})
	r.dead = nil
}

func (r *runningFleet) change(id int, change func(p *directory.Partition)) {
	r.t.Helper()
	m, err := r.dir.Confirm(r.t.Context(), 0)
	must(r.t, "Confirm", err)
	next := m.Clone()
	next.Epoch++
	change(&next.Partitions[id])
	must(r.t, "Change", r.dir.Change(r.t.Context(), m.Epoch, next))
}
