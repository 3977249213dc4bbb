package bench

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// The fleet of the simulation: the largest that a user has published.
const (
	simPartitions = 160
	simNodes      = 14
	simUses       = 3                     // partitions that a process uses
	simFull       = 25                    // processes with a whole client
	simCallEvery  = 50 * time.Millisecond // of one of those, to a partition that it uses
	simWindow     = 15 * time.Second
)

// TestThousandProcesses has 1,000 processes use a fleet of 160 partitions in two copies,
// and measures the cost for the directory: at rest, while a node is lost and its
// partitions get other masters, and while it returns. The directory is a redis-server;
// each process has a connection of its own to it, and asks as often as a fleet client
// does: twice in the life of a view, and as often as that lets itself while a partition
// that it uses is away. 25 of them are whole clients, and write; a thousand of those are
// more than one machine carries. The members only answer, and agents change the map as
// package failover does. With MILLRACE_SOAK; else with 8 processes, and only that
// nothing breaks.
//
//	MILLRACE_SOAK=1 go test -run TestThousandProcesses -v .
func TestThousandProcesses(t *testing.T) {
	processes, full, window := 8, 4, 200*time.Millisecond
	if os.Getenv("MILLRACE_SOAK") != "" {
		processes, full, window = 1000, simFull, simWindow
	}
	server := redistest.Durable(t)
	dir := dialDirectory(t, server.Addr())
	sim := &simulation{dir: dir, members: map[string]*simMember{}}
	t.Cleanup(sim.stop)
	check(t, sim.begin(t.Context()))

	fleets := make([]*fleet.Fleet, full)
	var opening sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range fleets {
		d := dialDirectory(t, server.Addr())
		opening.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f, err := fleet.Open(t.Context(), d, fleet.Config{Placements: 16, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Error(err)
				return
			}
			fleets[i] = f
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var done atomic.Int64
	for _, f := range fleets {
		working.Go(func() {
			use := rand.Perm(simPartitions)[:simUses]
			for retry.Sleep(ctx, simCallEvery/2+rand.N(simCallEvery)) {
				c := f.Partitions()[use[rand.IntN(simUses)]]
				if c.Do(ctx, c.B().Set().Key("k").Value("v").Build()).Error() == nil {
					done.Add(1)
				}
			}
		})
	}
	for range processes - full {
		p := &lightProcess{d: dialDirectory(t, server.Addr()), use: rand.Perm(simPartitions)[:simUses], sim: sim}
		working.Go(func() { p.follow(ctx) })
	}
	t.Cleanup(func() {
		stop()
		working.Wait()
		var closing sync.WaitGroup
		for _, f := range fleets {
			closing.Go(f.Close)
		}
		closing.Wait()
	})
	t.Logf("%d processes, %d members on %d nodes, each process uses %d partitions", processes, 2*simPartitions, simNodes, simUses)
	phase := func(name string, during func() error) {
		t.Helper()
		before, began := directoryUse(t, server), time.Now()
		epoch := sim.m.Epoch
		check(t, during())
		retry.Sleep(t.Context(), window-time.Since(began)) // a figure is the mean of the window
		used, took := directoryUse(t, server), time.Since(began).Seconds()
		t.Logf("%-18s %4.1f %% of a core, %6.0f commands/s, %7.0f kB/s out, %5.0f kB/s in, %3d changes of the map; %d processes were not confirmed for a second",
			name, 100*(used.cpu-before.cpu)/took, (used.commands-before.commands)/took, (used.out-before.out)/took/1e3, (used.in-before.in)/took/1e3,
			sim.m.Epoch-epoch, sim.unconfirmed.Swap(0))
	}
	// All have connected, and each has written.
	redistest.Eventually(t, "the whole clients write", func() bool { return int(done.Load()) >= 4*full })
	phase("at rest", func() error { return nil })
	phase("a node is lost", func() error { return sim.lose(t.Context(), 0) })
	phase("without it", func() error { return nil })
	phase("it returns", func() error { return sim.bringBack(t.Context(), 0) })
	phase("at rest again", func() error { return nil })
	last := sim.m.Epoch
	redistest.Eventually(t, "all processes have the last map", func() bool {
		return !slices.ContainsFunc(fleets, func(f *fleet.Fleet) bool { return directory.MapOf(f.Client()).Epoch != last })
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dialDirectory(t *testing.T, addr string) *directory.Directory {
	t.Helper()
	d, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{addr}})
	check(t, err)
	t.Cleanup(d.Close)
	return d
}

// use is the load of the directory's server since it started.
type use struct{ cpu, commands, out, in float64 }

func directoryUse(t *testing.T, s *redistest.Server) use {
	t.Helper()
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(s.Info(section)[name], 64)
		check(t, err)
		return n
	}
	return use{
		number("cpu", "used_cpu_user") + number("cpu", "used_cpu_sys"), number("stats", "total_commands_processed"),
		number("stats", "total_net_output_bytes"), number("stats", "total_net_input_bytes"),
	}
}

// simulation is the fleet: its map, and its members.
type simulation struct {
	dir     *directory.Directory
	m       *directory.Map
	members map[string]*simMember

	away        sync.Map     // numbers of partitions whose masters are
	unconfirmed atomic.Int64 // how often a process was not told that its map is the present one
}

// lightProcess asks the directory as often as a fleet client does.
type lightProcess struct {
	d   *directory.Directory
	use []int
	sim *simulation
}

func (p *lightProcess) follow(ctx context.Context) {
	var epoch int64
	confirmed := time.Now()
	for {
		life := directory.DefaultViewTTL
		pause := life*7/25 + rand.N(life/10)
		for _, partition := range p.use {
			if _, away := p.sim.away.Load(partition); away {
				pause = life/40 + rand.N(life/20)
			}
		}
		if !retry.Sleep(ctx, pause) {
			return
		}
		asked := time.Now()
		asking, cancel := context.WithTimeout(ctx, life)
		m, err := p.d.Confirm(asking, epoch)
		cancel()
		if m != nil {
			epoch = m.Epoch
		}
		if err == nil {
			if asked.Sub(confirmed) > life {
				p.sim.unconfirmed.Add(1)
			}
			confirmed = asked
		}
	}
}

// begin starts the members and stores the map.
func (s *simulation) begin(ctx context.Context) error {
	next, err := mapOf(&directory.Map{Version: directory.Version, Fleet: "simulated"}, simPartitions, 1)
	if err != nil {
		return err
	}
	for i := range next.Partitions {
		p := &next.Partitions[i]
		for j, m := range []*directory.Member{&p.Master, &p.Replicas[0]} {
			member, err := startMember()
			if err != nil {
				return err
			}
			m.Addr, m.Node = member.addr, fmt.Sprint("node-", (i+j)%simNodes)
			s.members[m.Addr] = member
		}
	}
	s.m = next
	return s.dir.Change(ctx, 0, next)
}

func (s *simulation) stop() {
	for _, m := range s.members {
		m.stop()
	}
}

// change changes the map, as an agent does.
func (s *simulation) change(ctx context.Context, change func(m *directory.Map)) error {
	next := s.m.Clone()
	next.Epoch++
	change(next)
	if err := s.dir.Change(ctx, s.m.Epoch, next); err != nil {
		return err
	}
	s.m = next
	return nil
}

// lose stops the members of a node. Agents notice, make the partitions read-only one by
// one, and after the grace give each its replica as master.
func (s *simulation) lose(ctx context.Context, node int) error {
	name := fmt.Sprint("node-", node)
	var masters, replicas []int
	for i, p := range s.m.Partitions {
		for _, m := range p.Members() {
			if m.Node == name {
				s.members[m.Addr].kill()
			}
		}
		switch name {
		case p.Master.Node:
			s.away.Store(i, true)
			masters = append(masters, i)
		case p.Replicas[0].Node:
			replicas = append(replicas, i)
		}
	}
	retry.Sleep(ctx, 1500*time.Millisecond) // three looks
	for _, i := range masters {
		if err := s.change(ctx, func(m *directory.Map) { m.Partitions[i].ReadOnly = true }); err != nil {
			return err
		}
	}
	for _, i := range replicas {
		if err := s.change(ctx, func(m *directory.Map) { m.Partitions[i].Replicas[0].Down = true }); err != nil {
			return err
		}
	}
	retry.Sleep(ctx, s.m.Grace())
	for _, i := range masters {
		err := s.change(ctx, func(m *directory.Map) {
			p := &m.Partitions[i]
			p.ReadOnly, p.Epoch = false, p.Epoch+1
			p.Before, p.History = p.History, fmt.Sprintf("%040d", m.Epoch)
			p.Master, p.Replicas[0] = p.Replicas[0], p.Master
			p.Replicas[0].Down = true
		})
		if err != nil {
			return err
		}
		s.away.Delete(i)
	}
	return nil
}

// bringBack starts the members of a node again, which are copied to one after the other.
func (s *simulation) bringBack(ctx context.Context, node int) error {
	for i, p := range s.m.Partitions {
		if r := p.Replicas[0]; r.Node == fmt.Sprint("node-", node) {
			s.members[r.Addr].revive()
			retry.Sleep(ctx, 100*time.Millisecond)
			if err := s.change(ctx, func(m *directory.Map) { m.Partitions[i].Replicas[0].Down = false }); err != nil {
				return err
			}
		}
	}
	return nil
}

// simMember is a server that answers OK to everything.
type simMember struct {
	addr     string
	listener net.Listener

	mu      sync.Mutex
	dead    bool // it closes connections at once, and keeps its port
	conns   map[net.Conn]struct{}
	serving sync.WaitGroup
}

func startMember() (*simMember, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &simMember{addr: l.Addr().String(), listener: l, conns: map[net.Conn]struct{}{}}
	m.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			if m.dead {
				c.Close()
			} else {
				m.conns[c] = struct{}{}
				m.serving.Go(func() { m.serve(c) })
			}
			m.mu.Unlock()
		}
	})
	return m, nil
}

// serve answers. Commands are counted by their first bytes: no value has a star.
func (m *simMember) serve(c net.Conn) {
	defer func() {
		c.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.conns, c)
	}()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		for i, command := range bytes.Split(buf[:n], []byte("*")) {
			if i == 0 {
				continue // the end of an earlier one
			}
			answer := "+OK\r\n"
			if bytes.Contains(command, []byte("HELLO")) {
				answer = "%1\r\n+proto\r\n:3\r\n"
			}
			if _, err := c.Write([]byte(answer)); err != nil {
				return
			}
		}
	}
}

// kill closes all connections, now and until revive.
func (m *simMember) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for c := range m.conns {
		c.Close()
	}
}

func (m *simMember) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
}

// stop ends it.
func (m *simMember) stop() {
	m.kill()
	m.listener.Close()
	m.serving.Wait()
}

// mapOf returns the map that follows another one, with other members, to which nothing
// connects.
func mapOf(m *directory.Map, partitions, replicas int) (*directory.Map, error) {
	points, err := ring.New(slices.Repeat([]int{1}, partitions)...)
	if err != nil {
		return nil, err
	}
	member := func(node, port, run int) directory.Member {
		return directory.Member{Addr: fmt.Sprintf("10.0.0.%d:%d", node, port), Node: fmt.Sprint("node-", node), Run: fmt.Sprintf("%040d", run)}
	}
	next := m.Clone()
	next.Epoch++
	next.Points, next.Partitions = points.Points(), nil
	for i := range partitions {
		p := directory.Partition{
			ID: i, Epoch: 1, Phase: directory.Open, History: fmt.Sprintf("%040d", i), Master: member(i%14, 7000+i, 1000+i),
		}
		for range replicas {
			p.Replicas = append(p.Replicas, member((i+1)%14, 8000+i, 2000+i))
		}
		next.Partitions = append(next.Partitions, p)
	}
	return next, nil
}
