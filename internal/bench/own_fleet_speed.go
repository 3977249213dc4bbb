package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// speedFigures measure the client of a fleet beside one for the first of its servers
// alone, and beside one for each, which is what many servers cost without a fleet. All
// sides of a figure work on the same fleet in turn.
func speedFigures() []Figure {
	var rows []Figure
	for _, size := range []struct {
		partitions int
		goal       float64
	}{{1, 0.9}, {4, 0.85}, {16, 0.7}} {
		fleets := &benchFleet{partitions: size.partitions}
		row := func(what, unit string, goal *Goal, work Measure) {
			rows = append(rows, Figure{What: fmt.Sprintf("fleet of %d, %s, 50 goroutines", size.partitions, what), Unit: unit, Sides: []Side{
				{Name: "fleet client", Measure: fleets.measure(work, throughFleet)},
				{Name: "bare client, one server", Goal: goal, Measure: fleets.measure(work, throughOne)},
				{Name: "bare clients, one for each server", Measure: fleets.measure(work, throughEach)},
			}})
		}
		row("GET", "gets/s", AtLeast(size.goal), gets)
		row("scripts", "calls/s", AtLeast(size.goal), scripts)
		row("pipelines of 100 GETs", "pipelines/s", nil, pipelines)
	}
	return rows
}

// benchFleet is a fleet that lasts from the first measurement to the end.
type benchFleet struct {
	partitions int

	once    sync.Once
	servers *devfleet.Fleet
	f       *fleet.Fleet
	err     error
}

// lasting are the fleets to be stopped.
var lasting struct {
	sync.Mutex
	fleets []*benchFleet
}

// StopFleets stops the servers of figures that share a fleet.
func StopFleets() (err error) {
	lasting.Lock()
	defer lasting.Unlock()
	for _, b := range lasting.fleets {
		if b.f != nil {
			b.f.Close()
		}
		if b.servers != nil {
			err = errors.Join(err, b.servers.Stop())
		}
	}
	return err
}

// measure measures work through the client that through returns.
func (b *benchFleet) measure(work Measure, through func(*devfleet.Fleet, *fleet.Fleet) (rueidis.Client, func(), error)) Measure {
	return func(ctx context.Context, at Place) (float64, error) {
		b.once.Do(func() {
			b.err = b.start(ctx)
			lasting.Lock()
			defer lasting.Unlock()
			lasting.fleets = append(lasting.fleets, b)
		})
		if b.err != nil {
			return 0, b.err
		}
		c, done, err := through(b.servers, b.f)
		if err != nil {
			return 0, err
		}
		defer done()
		at.Client = c
		for i := range fleetTags {
			if err := c.Do(ctx, c.B().Set().Key(tagged(i)).Value(fieldValue).Build()).Error(); err != nil {
				return 0, err
			}
		}
		return work(ctx, at)
	}
}

func (b *benchFleet) start(ctx context.Context) (err error) {
	cfg := devfleet.Config{Nodes: 1, Partitions: b.partitions, Replicas: devfleet.NoReplicas, Settings: directory.Settings{PlacementTTL: time.Hour}}
	if b.servers, err = devfleet.Start(ctx, cfg); err != nil {
		return err
	}
	b.f, err = fleet.Dial(ctx, b.servers.URL(), fleet.Config{Logger: slog.New(slog.DiscardHandler)})
	return err
}

func throughFleet(_ *devfleet.Fleet, f *fleet.Fleet) (rueidis.Client, func(), error) {
	return f.Client(), func() {}, nil
}

func throughOne(_ *devfleet.Fleet, f *fleet.Fleet) (rueidis.Client, func(), error) {
	c, err := dialMaster(f, 0)
	return c, func() { c.Close() }, err
}

func dialMaster(f *fleet.Fleet, partition int) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{directory.MapOf(f.Client()).Partitions[partition].Master.Addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
	})
}

// router has a client for each server, and chooses by the first key.
type router struct {
	rueidis.Client

	servers []rueidis.Client
}

func throughEach(_ *devfleet.Fleet, f *fleet.Fleet) (rueidis.Client, func(), error) {
	e := &router{}
	closeAll := func() {
		for _, c := range e.servers {
			c.Close()
		}
	}
	for i := range directory.MapOf(f.Client()).Partitions {
		c, err := dialMaster(f, i)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		e.servers = append(e.servers, c)
	}
	e.Client = e.servers[0]
	return e, closeAll, nil
}

func (e *router) at(cmd rueidis.Completed) int {
	words := cmd.Commands()
	key := words[1]
	if len(words) > 3 && (words[0] == "EVALSHA" || words[0] == "EVAL") {
		key = words[3]
	}
	sum := 0
	for _, b := range []byte(fleet.Tag(key)) {
		sum = sum*31 + int(b)
	}
	return sum & (1<<30 - 1) % len(e.servers)
}

func (e *router) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return e.servers[e.at(cmd)].Do(ctx, cmd)
}

func (e *router) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	parts := make([][]rueidis.Completed, len(e.servers))
	places := make([][]int, len(e.servers))
	for i, cmd := range multi {
		n := e.at(cmd)
		parts[n], places[n] = append(parts[n], cmd), append(places[n], i)
	}
	results := make([]rueidis.RedisResult, len(multi))
	var working sync.WaitGroup
	for n, part := range parts {
		if len(part) > 0 {
			working.Go(func() {
				for i, result := range e.servers[n].DoMulti(ctx, part...) {
					results[places[n][i]] = result
				}
			})
		}
	}
	working.Wait()
	return results
}

func scripts(ctx context.Context, at Place) (float64, error) {
	c := at.Client
	const source = "return redis.call('ZADD', KEYS[1], 1, ARGV[1])"
	sha := rueidis.NewLuaScript(source)
	for i := range fleetTags { // each server has it then
		if err := sha.Exec(ctx, c, []string{fmt.Sprintf("{user:%d}:set", i)}, []string{"member"}).Error(); err != nil {
			return 0, err
		}
	}
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		return sha.Exec(ctx, c, []string{fmt.Sprintf("{user:%d}:set", rand.IntN(fleetTags))}, []string{"member"}).Error()
	})
}

func gets(ctx context.Context, at Place) (float64, error) {
	c := at.Client
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		err := c.Do(ctx, c.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil // on the one server are not those of the others
		}
		return err
	})
}

func pipelines(ctx context.Context, at Place) (float64, error) {
	c := at.Client
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		cmds := make([]rueidis.Completed, 100)
		for i := range cmds {
			cmds[i] = c.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()
		}
		for _, result := range c.DoMulti(ctx, cmds...) {
			if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
		}
		return nil
	})
}
