package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/cmd/millrace/bench"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/directory"
	"github.com/millrace/millrace/internal/devfleet"
)

func fleetFigures() []bench.Figure {
	rows := []bench.Figure{
		{What: "fleet script calls, 50 goroutines, 1000 tags", Unit: "calls/s", Sides: []bench.Side{
			{Name: "fleet client", Measure: onAFleet(scripts, throughFleet)},
			{Name: "bare client, the same server", Measure: onAFleet(scripts, throughMember)},
		}},
		{What: "fleet GET, 50 goroutines, 1000 tags", Unit: "gets/s", Sides: []bench.Side{
			{Name: "fleet client", Measure: onAFleet(gets, throughFleet)},
			{Name: "bare client, the same server", Measure: onAFleet(gets, throughMember)},
		}},
		{What: "fleet pipelines of 100 GETs, 50 goroutines", Unit: "pipelines/s", Sides: []bench.Side{
			{Name: "fleet client", Measure: onAFleet(pipelines, throughFleet)},
			{Name: "bare client, the same server", Measure: onAFleet(pipelines, throughMember)},
		}},
	}
	for g := 1; g <= maxDoublings; g++ {
		expected := 1 + float64(g)/2 // and a tenth for chance
		rows = append(rows,
			bench.Figure{What: fmt.Sprintf("fleet questions for an old tag after %d doublings", g), Unit: "questions", Sides: []bench.Side{
				{Name: "by generation", Measure: questions(g, fleetQuestions)},
				{Name: "before doubling", Goal: bench.AtMost(expected + 0.1), Measure: questions(0, fleetQuestions)},
			}},
			bench.Figure{What: fmt.Sprintf("fleet look-up of an old tag after %d doublings", g), Unit: "us", Sides: []bench.Side{
				{Name: "by generation", Measure: questions(g, fleetLookUp)},
				{Name: "before doubling", Measure: questions(0, fleetLookUp)},
			}})
	}
	return rows
}

const (
	maxDoublings = 4
	fleetTags    = 1000
)

// hasty are settings that let partitions be added at once; nothing is replaced
// here.
var hasty = directory.Settings{ViewLife: 200 * time.Millisecond, ReplyLimit: 2 * time.Second, PlacementLife: time.Hour}

// withFleet calls measure with a fleet of its own, of one server.
func withFleet(ctx context.Context, settings directory.Settings, measure func(*devfleet.Fleet, *fleet.Fleet) (float64, error)) (float64, error) {
	return withServers(ctx, devfleet.Config{Nodes: 1, Partitions: 1, Replicas: devfleet.NoReplicas, Settings: settings}, measure)
}

// withServers calls measure with a fleet of its own. With replicas, each write is
// confirmed by one.
func withServers(ctx context.Context, cfg devfleet.Config, measure func(*devfleet.Fleet, *fleet.Fleet) (float64, error)) (figure float64, err error) {
	servers, err := devfleet.Start(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	f, err := fleet.Dial(ctx, servers.URL(), fleet.Config{WaitReplicas: min(1, max(0, cfg.Replicas)), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return measure(servers, f)
}

// onAFleet measures work on a fleet of one partition, through the client that
// through returns.
func onAFleet(work bench.Measure, through func(*devfleet.Fleet, *fleet.Fleet) (rueidis.Client, error)) bench.Measure {
	return func(ctx context.Context, at bench.Place) (float64, error) {
		return withFleet(ctx, directory.Settings{PlacementLife: time.Hour}, func(servers *devfleet.Fleet, f *fleet.Fleet) (float64, error) {
			c, err := through(servers, f)
			if err != nil {
				return 0, err
			}
			defer c.Close()
			at.Client = c
			for i := range fleetTags {
				if err := c.Do(ctx, c.B().Set().Key(tagged(i)).Value(fieldValue).Build()).Error(); err != nil {
					return 0, err
				}
			}
			return work(ctx, at)
		})
	}
}

func throughFleet(_ *devfleet.Fleet, f *fleet.Fleet) (rueidis.Client, error) { return f.Client(), nil }

func throughMember(servers *devfleet.Fleet, _ *fleet.Fleet) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{servers.Servers()[0].Addr}, ForceSingleClient: true, DisableCache: true, AlwaysPipelining: true,
	})
}

func tagged(i int) string { return fmt.Sprintf("{user:%d}:value", i) }

func scripts(ctx context.Context, at bench.Place) (float64, error) {
	c := at.Client
	const source = "return redis.call('ZADD', KEYS[1], 1, ARGV[1])"
	if err := c.Do(ctx, c.B().Eval().Script(source).Numkeys(1).Key("{user:0}:set").Arg("x").Build()).Error(); err != nil {
		return 0, err
	}
	sha := rueidis.NewLuaScript(source)
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		return sha.Exec(ctx, c, []string{fmt.Sprintf("{user:%d}:set", rand.IntN(fleetTags))}, []string{"member"}).Error()
	})
}

func gets(ctx context.Context, at bench.Place) (float64, error) {
	c := at.Client
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		return c.Do(ctx, c.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()).Error()
	})
}

func pipelines(ctx context.Context, at bench.Place) (float64, error) {
	c := at.Client
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		cmds := make([]rueidis.Completed, 100)
		for i := range cmds {
			cmds[i] = c.B().Get().Key(tagged(rand.IntN(fleetTags))).Build()
		}
		for _, result := range c.DoMulti(ctx, cmds...) {
			if err := result.Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// questions measures something on a fleet that was doubled after tags had been
// placed.
func questions(doublings int, figure func(context.Context, *fleet.Fleet) (float64, error)) bench.Measure {
	return func(ctx context.Context, _ bench.Place) (float64, error) {
		return withFleet(ctx, hasty, func(servers *devfleet.Fleet, f *fleet.Fleet) (float64, error) {
			c := f.Client()
			for i := range fleetTags {
				if err := c.Do(ctx, c.B().Set().Key(tagged(i)).Value(fieldValue).Build()).Error(); err != nil {
					return 0, err
				}
			}
			for g := range doublings {
				if err := servers.AddPartition(ctx, 1<<g); err != nil {
					return 0, err
				}
			}
			grown, err := fleet.Dial(ctx, servers.URL(), fleet.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return 0, err
			}
			defer grown.Close()
			return figure(ctx, grown)
		})
	}
}

// fleetQuestions is how many partitions are asked for a tag, on average.
func fleetQuestions(ctx context.Context, f *fleet.Fleet) (float64, error) {
	asked := 0
	for i := range fleetTags {
		l, err := f.Locate(ctx, fleet.Tag(tagged(i)))
		if err != nil {
			return 0, err
		}
		if l.How == fleet.Nowhere {
			return 0, fmt.Errorf("the tag of %s was not found", tagged(i))
		}
		asked += len(l.Asked)
	}
	return float64(asked) / fleetTags, nil
}

// fleetLookUp is how long that takes, one after the other.
func fleetLookUp(ctx context.Context, f *fleet.Fleet) (float64, error) {
	if _, err := fleetQuestions(ctx, f); err != nil { // connections are open
		return 0, err
	}
	start := time.Now()
	_, err := fleetQuestions(ctx, f)
	return float64(time.Since(start).Microseconds()) / fleetTags, err
}
