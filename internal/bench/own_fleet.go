package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/ring"
	"github.com/millrace/millrace/scatter"
)

const (
	maxDoublings = 4
	fleetTags    = 1000
)

// fleetFigures measure the client of a fleet beside a client of its first server alone, and
// beside one client for each server, which is the cost of many servers without a fleet; and
// the cost of one process of a thousand for the directory and each member that it uses.
func fleetFigures() []Figure {
	const bareClients = "bare clients, one for each server"
	var rows []Figure
	for _, size := range []struct {
		partitions int
		goal       float64
	}{{1, 0.9}, {4, 0.85}, {16, 0.7}} {
		shared := &sharedFleet{partitions: size.partitions}
		row := func(what, unit string, goal *Goal, work func(b *B) op) {
			rows = append(rows, Figure{What: fmt.Sprintf("fleet of %d, %s, 50 goroutines", size.partitions, what), Unit: unit, Sides: []Side{
				{Name: "fleet client", Measure: shared.measure(work, throughFleet)},
				{Name: "bare client, one server", Goal: goal, Measure: shared.measure(work, throughOne)},
				{Name: bareClients, Measure: shared.measure(work, throughEach)},
			}})
		}
		row("GET", "gets/s", AtLeast(size.goal), gets)
		row("scripts", "calls/s", AtLeast(size.goal), scripts)
		row("pipelines of 100 GETs", "pipelines/s", nil, pipelines)
	}
	rows = append(rows,
		Figure{What: "fleet directory, its time for a confirmation, 160 partitions in two copies", Unit: "us", Sides: []Side{
			{Name: "160x2", Measure: confirmation(160, 1)},
			{Name: "4x1", Goal: AtMost(1.5), Measure: confirmation(4, 0)},
		}},
		Figure{What: "fleet connections to a member in use, GOMAXPROCS 8, 50 goroutines", Unit: "connections", Sides: []Side{
			{Name: "fleet client", Measure: perMember(throughFleet, connections)},
			{Name: bareClients, Goal: ValueAtMost(1), Measure: perMember(throughEach, connections)},
		}},
		Figure{What: "fleet heap for a member in use, GOMAXPROCS 8, 50 goroutines", Unit: "MiB", Sides: []Side{
			{Name: "fleet client", Measure: perMember(throughFleet, heap)},
			{Name: bareClients, Goal: ValueAtMost(0.5), Measure: perMember(throughEach, heap)},
		}})
	for g := 1; g <= maxDoublings; g++ {
		expected := 1 + float64(g)/2 // and a tenth for chance
		rows = append(rows, Figure{
			What: fmt.Sprintf("fleet questions for an old tag after %d doublings", g), Unit: "questions", Sides: []Side{
				{Name: "by generation", Measure: questions(g)},
				{Name: "before doubling", Goal: AtMost(expected + 0.1), Measure: questions(0)},
			},
		})
	}
	return rows
}

// startFleet starts a fleet, which is stopped at the end.
func (b *B) startFleet(ctx context.Context, cfg devfleet.Config) *devfleet.Fleet {
	servers := must.Get(devfleet.Start(ctx, cfg))
	b.Cleanup(func(context.Context) error { return servers.Stop() })
	return servers
}

// oneNode is a fleet without replicas, whose members are on one node.
func oneNode(partitions int, settings directory.Settings) devfleet.Config {
	return devfleet.Config{Nodes: 1, Partitions: partitions, Replicas: devfleet.NoReplicas, Settings: settings}
}

// dialFleet returns a client of a fleet, which is closed at the end. Writes are confirmed
// by so many replicas.
func (b *B) dialFleet(ctx context.Context, servers *devfleet.Fleet, replicas int) *fleet.Fleet {
	f := must.Get(fleet.Dial(ctx, servers.URL(), fleet.Config{WaitReplicas: replicas, Logger: slog.New(slog.DiscardHandler)}))
	b.closeAfter(f)
	return f
}

// startAgent runs an agent of a fleet until end is called.
func (b *B) startAgent(ctx context.Context, servers *devfleet.Fleet, interval time.Duration) (end func()) {
	return beside.Agent(b.dialDirectory(servers), rueidis.ClientOption{}, agent.Config{Interval: interval, Logger: slog.New(slog.DiscardHandler)})(ctx)
}

// dialDirectory connects to the directory of a fleet until the end.
func (b *B) dialDirectory(servers *devfleet.Fleet) *directory.Directory {
	dir := must.Get(directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}}))
	b.closeAfter(dir)
	return dir
}

// dialServer connects to one server until the end.
func (b *B) dialServer(addr string) rueidis.Client {
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
	}))
	b.closeAfter(c)
	return c
}

// sharedFleet is a fleet that lasts from the first measurement until StopFleets.
type sharedFleet struct {
	partitions int

	once sync.Once
	f    *fleet.Fleet
	err  error
}

// stops are the functions that StopFleets calls.
var stops struct {
	sync.Mutex
	list []func(context.Context) error
}

// StopFleets stops the servers of figures that share a fleet.
func StopFleets() (err error) {
	stops.Lock()
	defer stops.Unlock()
	for _, stop := range stops.list {
		err = errors.Join(err, stop(context.Background()))
	}
	stops.list = nil
	return err
}

func (s *sharedFleet) start(ctx context.Context) {
	servers, err := devfleet.Start(ctx, oneNode(s.partitions, directory.Settings{PlacementTTL: time.Hour}))
	if err == nil {
		s.f, err = fleet.Dial(ctx, servers.URL(), fleet.Config{Logger: slog.New(slog.DiscardHandler)})
		stops.Lock()
		defer stops.Unlock()
		stops.list = append(stops.list, func(context.Context) error {
			if s.f != nil {
				s.f.Close()
			}
			return servers.Stop()
		})
	}
	s.err = err
}

// through returns a client with which work is done on a fleet's servers.
type through func(b *B, f *fleet.Fleet) rueidis.Client

// measure measures work through a client.
func (s *sharedFleet) measure(work func(b *B) op, client through) Measure {
	return rated(func(ctx context.Context, b *B) op {
		s.once.Do(func() { s.start(ctx) })
		must.Do(s.err)
		b.Client = client(b, s.f)
		for i := range fleetTags {
			must.Do(b.Client.Do(ctx, b.Client.B().Set().Key(tagged(i)).Value(fieldValue).Build()).Error())
			must.Do(zadd.Exec(ctx, b.Client, []string{tagged(i) + ":set"}, []string{"member"}).Error()) // each server has it then
		}
		return work(b)
	})
}

func throughFleet(_ *B, f *fleet.Fleet) rueidis.Client { return f.Client() }

func throughOne(b *B, f *fleet.Fleet) rueidis.Client {
	return b.dialServer(directory.MapOf(f.Client()).Partitions[0].Master.Addr)
}

func throughEach(b *B, f *fleet.Fleet) rueidis.Client {
	e := &router{}
	for _, p := range directory.MapOf(f.Client()).Partitions {
		e.servers = append(e.servers, b.dialServer(p.Master.Addr))
	}
	e.Client = e.servers[0]
	return e
}

// router has a client for each server, and chooses by the first key.
type router struct {
	rueidis.Client

	servers []rueidis.Client
}

func (e *router) at(cmd rueidis.Completed) int {
	words := cmd.Commands()
	key := words[1]
	if strings.HasPrefix(words[0], "EVAL") {
		key = words[3]
	}
	return scatter.JavaHash(fleet.Tag(key), len(e.servers))
}

func (e *router) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return e.servers[e.at(cmd)].Do(ctx, cmd)
}

func (e *router) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	commands, places := make([][]rueidis.Completed, len(e.servers)), make([][]int, len(e.servers))
	for i, cmd := range multi {
		n := e.at(cmd)
		commands[n], places[n] = append(commands[n], cmd), append(places[n], i)
	}
	results := make([]rueidis.RedisResult, len(multi))
	var working sync.WaitGroup
	for n, to := range commands {
		if len(to) > 0 {
			working.Go(func() {
				for i, result := range e.servers[n].DoMulti(ctx, to...) {
					results[places[n][i]] = result
				}
			})
		}
	}
	working.Wait()
	return results
}

func tagged(i int) string { return fmt.Sprintf("{user:%d}:value", i) }

var zadd = rueidis.NewLuaScript("return redis.call('ZADD', KEYS[1], 1, ARGV[1])")

func scripts(b *B) op {
	return func(ctx context.Context, _ int) error {
		return zadd.Exec(ctx, b.Client, []string{tagged(rand.IntN(fleetTags)) + ":set"}, []string{"member"}).Error()
	}
}

func gets(b *B) op {
	return func(ctx context.Context, _ int) error {
		err := b.Client.Do(ctx, b.Client.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil // nothing was written
		}
		return err
	}
}

func pipelines(b *B) op {
	return func(ctx context.Context, _ int) error {
		cmds := make([]rueidis.Completed, 100)
		for i := range cmds {
			cmds[i] = b.Client.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()
		}
		return firstError(b.Client.DoMulti(ctx, cmds...))
	}
}

// confirmation is how long the directory's server is busy with one, of a map of that
// size.
func confirmation(partitions, replicas int) Measure {
	return func(ctx context.Context, b *B) float64 {
		servers := b.startFleet(ctx, oneNode(1, directory.Settings{}))
		dir, c := b.dialDirectory(servers), b.dialServer(servers.DirectoryAddr())
		m := must.Get(dir.Confirm(ctx, 0))
		next := must.Get(mapOf(m, partitions, replicas))
		must.Do(dir.Change(ctx, m.Epoch, next))
		must.Get(dir.Confirm(ctx, next.Epoch)) // the script is loaded
		must.Do(c.Do(ctx, c.B().ConfigResetstat().Build()).Error())
		b.Rate(ctx, func(ctx context.Context, _ int) error { _, err := dir.Confirm(ctx, next.Epoch); return err })
		stats := info.Parse(must.Get(c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()))
		var us float64
		for _, command := range []string{"del", "hmget"} { // which a confirmation is
			_, rest, _ := strings.Cut(stats["cmdstat_"+command], "usec_per_call=")
			var each float64
			must.Get(fmt.Sscanf(rest, "%f", &each))
			us += each
		}
		return us
	}
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

// perMember measures by how much a number grows when a client has been busy with eight
// members, for each of them.
func perMember(client through, number func(ctx context.Context, servers *devfleet.Fleet) float64) Measure {
	const partitions = 8
	return func(ctx context.Context, b *B) float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
		servers := b.startFleet(ctx, oneNode(partitions, directory.Settings{PlacementTTL: time.Hour}))
		f := b.dialFleet(ctx, servers, 0)
		before := number(ctx, servers)
		b.Client = client(b, f)
		b.Rate(ctx, gets(b))
		return (number(ctx, servers) - before) / partitions
	}
}

// connections counts those to the members.
func connections(ctx context.Context, servers *devfleet.Fleet) (n float64) {
	for _, s := range servers.Servers() {
		c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1}))
		list, err := c.Do(ctx, c.B().ClientList().Build()).ToString()
		c.Close()
		must.Do(err)
		n += float64(strings.Count(list, "\n"))
	}
	return n
}

// heap is the memory that this process has in use, in MiB.
func heap(context.Context, *devfleet.Fleet) float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// questions measures how many partitions are asked for a tag, on average, on a fleet that
// was doubled after tags had been placed. Partitions can be added at once: no master is
// replaced here.
func questions(doublings int) Measure {
	return func(ctx context.Context, b *B) float64 {
		servers := b.startFleet(ctx, oneNode(1, directory.Settings{ViewTTL: 200 * time.Millisecond, ReplyTimeout: 2 * time.Second, PlacementTTL: time.Hour}))
		c := b.dialFleet(ctx, servers, 0).Client()
		for i := range fleetTags {
			must.Do(c.Do(ctx, c.B().Set().Key(tagged(i)).Value(fieldValue).Build()).Error())
		}
		defer b.startAgent(ctx, servers, 50*time.Millisecond)()
		for g := range doublings {
			must.Do(servers.AddPartition(ctx, 1<<g))
		}
		grown, asked := b.dialFleet(ctx, servers, 0), 0
		for i := range fleetTags {
			l := must.Get(grown.Locate(ctx, fleet.Tag(tagged(i))))
			if l.How == fleet.Nowhere {
				must.Do(fmt.Errorf("the tag of %s was not found", tagged(i)))
			}
			asked += len(l.Asked)
		}
		return float64(asked) / fleetTags
	}
}
