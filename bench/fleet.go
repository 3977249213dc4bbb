package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/must"
)

// fleetTags is how many tags calls go to.
const fleetTags = 1000

// fleetFigures measure the client of a fleet beside a bare client of its first server.
func fleetFigures() []bench.Figure {
	var rows []bench.Figure
	for _, size := range []struct {
		partitions int
		goal       float64
	}{{1, 0.9}, {4, 0.85}, {16, 0.7}} {
		for _, work := range []struct {
			what, unit string
			op         func(c rueidis.Client) bench.Op
		}{{"GET", "gets/s", gets}, {"scripts", "calls/s", scripts}} {
			rows = append(rows, bench.Figure{What: fmt.Sprintf("fleet of %d, %s, 50 goroutines", size.partitions, work.what), Unit: work.unit, Sides: []bench.Side{
				{Name: "fleet client", Measure: onFleet(size.partitions, work.op, true)},
				{Name: "bare client, one server", Goal: bench.AtLeast(size.goal), Measure: onFleet(size.partitions, work.op, false)},
			}})
		}
	}
	return rows
}

// onFleet measures work on a fleet, through its client or through a bare one of its first server.
func onFleet(partitions int, work func(c rueidis.Client) bench.Op, whole bool) bench.Measure {
	return bench.Rated(func(ctx context.Context, b *bench.B) bench.Op {
		servers := devfleet.OnStage(ctx, &b.Stage, devfleet.Config{
			Nodes: 1, Partitions: partitions, Replicas: devfleet.NoReplicas, Settings: directory.Settings{PlacementTTL: time.Hour},
		})
		c := servers.Dial(ctx, &b.Stage, 0).Client()
		if !whole {
			c = must.Get(b.Dial(ctx, "redis://"+directory.MapOf(c).Partitions[0].Master.Addr))
		}
		for i := range fleetTags {
			must.Do(c.Do(ctx, c.B().Set().Key(tagged(i)).Value("sixteen bytes at").Build()).Error())
			must.Do(zadd.Exec(ctx, c, []string{tagged(i) + ":set"}, []string{"member"}).Error()) // each server has it then
		}
		return work(c)
	})
}

func tagged(i int) string { return fmt.Sprintf("{user:%d}:value", i) }

var zadd = rueidis.NewLuaScript("return redis.call('ZADD', KEYS[1], 1, ARGV[1])")

func scripts(c rueidis.Client) bench.Op {
	return func(ctx context.Context, _ int) error {
		return zadd.Exec(ctx, c, []string{tagged(rand.IntN(fleetTags)) + ":set"}, []string{"member"}).Error()
	}
}

func gets(c rueidis.Client) bench.Op {
	return func(ctx context.Context, _ int) error {
		err := c.Do(ctx, c.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil // nothing was written
		}
		return err
	}
}
