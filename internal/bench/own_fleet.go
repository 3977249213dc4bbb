package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

func fleetFigures() []Figure {
	rows := append(speedFigures(), costFigures()...)
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

const (
	maxDoublings = 4
	fleetTags    = 1000
)

// hasty are settings that let partitions be added at once; nothing is replaced
// here.
var hasty = directory.Settings{ViewTTL: 200 * time.Millisecond, ReplyTimeout: 2 * time.Second, PlacementTTL: time.Hour}

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

func tagged(i int) string { return fmt.Sprintf("{user:%d}:value", i) }

// questions measures fleetQuestions on a fleet that was doubled after tags had been
// placed.
func questions(doublings int) Measure {
	return func(ctx context.Context, _ Place) (float64, error) {
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
			return fleetQuestions(ctx, grown)
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
