package bench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// costFigures measure what one process of a thousand costs the directory, and each
// member that it uses.
func costFigures() []Figure {
	return []Figure{
		{What: "fleet directory, its time for a confirmation, 160 partitions in two copies", Unit: "us", Sides: []Side{
			{Name: "160x2", Measure: confirmation(160, 1)},
			{Name: "4x1", Goal: AtMost(1.5), Measure: confirmation(4, 0)},
		}},
		{What: "fleet connections to a member in use, GOMAXPROCS 8, 50 goroutines", Unit: "connections", Sides: []Side{
			{Name: "fleet client", Measure: perMember(throughFleet, connectionsLeft)},
			{Name: "bare clients, one for each server", Goal: ValueAtMost(1), Measure: perMember(throughEach, connectionsLeft)},
		}},
		{What: "fleet heap for a member in use, GOMAXPROCS 8, 50 goroutines", Unit: "MiB", Sides: []Side{
			{Name: "fleet client", Measure: perMember(throughFleet, heapLeft)},
			{Name: "bare clients, one for each server", Goal: ValueAtMost(0.5), Measure: perMember(throughEach, heapLeft)},
		}},
	}
}

// confirmation is how long the directory's server is busy with one, of a map of that
// size.
func confirmation(partitions, replicas int) Measure {
	return func(ctx context.Context, at Place) (float64, error) {
		return withFleet(ctx, directory.Settings{}, func(servers *devfleet.Fleet, _ *fleet.Fleet) (float64, error) {
			option, err := fleet.ParseURL(servers.URL())
			if err != nil {
				return 0, err
			}
			dir, err := directory.Dial(option)
			if err != nil {
				return 0, err
			}
			defer dir.Close()
			m, err := dir.Confirm(ctx, 0)
			if err != nil {
				return 0, err
			}
			next, err := mapOf(m, partitions, replicas)
			if err != nil {
				return 0, err
			}
			if err := dir.Change(ctx, m.Epoch, next); err != nil {
				return 0, err
			}
			option.ForceSingleClient, option.DisableCache = true, true
			c, err := rueidis.NewClient(option)
			if err != nil {
				return 0, err
			}
			defer c.Close()
			if _, err := dir.Confirm(ctx, next.Epoch); err != nil { // the script is there
				return 0, err
			}
			if err := c.Do(ctx, c.B().ConfigResetstat().Build()).Error(); err != nil {
				return 0, err
			}
			if _, err := at.Rate(ctx, func(ctx context.Context, _ int) error { _, err := dir.Confirm(ctx, next.Epoch); return err }); err != nil {
				return 0, err
			}
			info, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
			if err != nil {
				return 0, err
			}
			var us float64
			for _, command := range []string{"del", "hget"} { // which a confirmation is
				_, rest, _ := strings.Cut(info, "cmdstat_"+command+":")
				_, rest, _ = strings.Cut(rest, "usec_per_call=")
				var each float64
				if _, err := fmt.Sscanf(rest, "%f", &each); err != nil {
					return 0, fmt.Errorf("%s: %w", command, err)
				}
				us += each
			}
			return us, nil
		})
	}
}

// mapOf returns the next map after one, with other members, to which nothing connects.
func mapOf(m *directory.Map, partitions, replicas int) (*directory.Map, error) {
	points, err := ring.New(ring.Even(partitions)...)
	if err != nil {
		return nil, err
	}
	next := m.Clone()
	next.Epoch++
	next.Points, next.Partitions = points.Points(), nil
	for i := range partitions {
		p := directory.Partition{
			ID: i, Epoch: 1, Phase: directory.Open, History: fmt.Sprintf("%040d", i),
			Master: directory.Member{Addr: fmt.Sprintf("10.0.0.%d:%d", i%14, 7000+i), Node: fmt.Sprint("node-", i%14), Run: fmt.Sprintf("%040d", 1000+i)},
		}
		for range replicas {
			p.Replicas = append(p.Replicas, directory.Member{
				Addr: fmt.Sprintf("10.0.0.%d:%d", (i+1)%14, 8000+i), Node: fmt.Sprint("node-", (i+1)%14), Run: fmt.Sprintf("%040d", 2000+i),
			})
		}
		next.Partitions = append(next.Partitions, p)
	}
	return next, nil
}

// perMember measures something at a client that has been busy with eight members, for
// each of them.
func perMember(through func(*devfleet.Fleet, *fleet.Fleet) (rueidis.Client, func(), error),
	figure func(ctx context.Context, servers *devfleet.Fleet, work func() error) (float64, error),
) Measure {
	const partitions = 8
	return func(ctx context.Context, at Place) (float64, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
		cfg := devfleet.Config{Nodes: 1, Partitions: partitions, Replicas: devfleet.NoReplicas, Settings: directory.Settings{PlacementTTL: time.Hour}}
		return withServers(ctx, cfg, func(servers *devfleet.Fleet, f *fleet.Fleet) (float64, error) {
			var done func()
			defer func() { done() }()
			n, err := figure(ctx, servers, func() (err error) {
				if at.Client, done, err = through(servers, f); err == nil {
					_, err = gets(ctx, at)
				}
				return err
			})
			return n / partitions, err
		})
	}
}

// connectionsLeft counts those that the work leaves at the members.
func connectionsLeft(ctx context.Context, servers *devfleet.Fleet, work func() error) (float64, error) {
	count := func() (n float64, err error) {
		for _, s := range servers.Servers() {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1})
			if err != nil {
				return 0, err
			}
			list, err := c.Do(ctx, c.B().ClientList().Build()).ToString()
			c.Close()
			if err != nil {
				return 0, err
			}
			n += float64(strings.Count(list, "\n"))
		}
		return n, nil
	}
	before, err := count()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := count()
	return after - before, err
}

// heapLeft is what the work leaves in this process, in MiB.
func heapLeft(_ context.Context, _ *devfleet.Fleet, work func() error) (float64, error) {
	used := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	err := work()
	return (used() - before) / (1 << 20), err
}
