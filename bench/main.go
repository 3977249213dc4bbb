package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// setup is what every side is given.
type setup struct {
	client rueidis.Client
	time   time.Duration // how long a side runs
}

// row is one figure.
type row struct {
	name  string
	unit  string
	sides []side // the first is what is measured, the others are baselines
}

// side is one way to do the row's work.
type side struct {
	name  string
	goal  float64 // the ratio of the measured side to this one that is to be reached
	speed func(context.Context, setup) (float64, error)
}

func run(ctx context.Context) error {
	url := flag.String("redis", "", "URL of a server to measure on; it is written to. Defaults to a private one.")
	rounds := flag.Int("rounds", 5, "rounds of each row")
	length := flag.Duration("time", time.Second, "how long a side runs in a round")
	only := flag.String("only", "", "measure only rows whose name has this in it")
	flag.Parse()
	if *rounds < 1 || *length <= 0 {
		return errors.New("--rounds and --time must be positive")
	}

	client, where, closeAll, err := open(ctx, *url)
	if err != nil {
		return err
	}
	defer closeAll()
	fmt.Printf("%s, %s, %d CPUs, medians of %d rounds of %v\n\n", where, runtime.Version(), runtime.NumCPU(), *rounds, *length)

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tmeasured\tagainst\tratio\tat least\t")
	for _, r := range ickRows() {
		if !strings.Contains(r.name, *only) {
			continue
		}
		speeds, err := measure(ctx, setup{client: client, time: *length}, r, *rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		write(table, r, speeds)
	}
	return nil
}

func open(ctx context.Context, url string) (client rueidis.Client, where string, closeAll func(), err error) {
	if url != "" {
		client, err = connect.Open(url)
		if err != nil {
			return nil, "", nil, err
		}
		return client, "the server of --redis", client.Close, nil
	}
	server, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return nil, "", nil, err
	}
	if !server.Real {
		return nil, "", nil, errors.Join(server.Close(), errors.New("there is no redis-server on PATH, and miniredis would say nothing about speed"))
	}
	return server.Client, server.Kind, func() { _ = server.Close() }, nil
}

// measure returns the speed of each side in each round.
func measure(ctx context.Context, s setup, r row, rounds int) ([][]float64, error) {
	speeds := make([][]float64, len(r.sides))
	for round := range rounds {
		for i, side := range r.sides {
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("%s: round %d of %d, %s", r.name, round+1, rounds, side.name))
			speed, err := side.speed(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			speeds[i] = append(speeds[i], speed)
		}
	}
	fmt.Fprintf(os.Stderr, "\r%-60s\r", "")
	return speeds, nil
}

func write(table *tabwriter.Writer, r row, speeds [][]float64) {
	for i := 1; i < len(r.sides); i++ {
		var ratios []float64
		for round, speed := range speeds[0] {
			ratios = append(ratios, speed/speeds[i][round])
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s: %s\t%.2f\t%.1f\t\n", r.name,
			figure(median(speeds[0])), r.unit, r.sides[i].name, figure(median(speeds[i])), median(ratios), r.sides[i].goal)
	}
	table.Flush()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func figure(speed float64) string {
	if speed >= 1000 {
		return fmt.Sprintf("%.1fk", speed/1000)
	}
	return fmt.Sprintf("%.1f", speed)
}
