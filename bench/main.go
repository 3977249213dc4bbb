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
	url    string        // of the server, for those who bring a client of their own
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
	name   string
	goal   string // what is to be reached: the ratio to this side, or a figure with its unit
	figure func(context.Context, setup) (float64, error)
}

func rows() []row {
	return slices.Concat(ickRows(), queueRows(), leaseRows(), stealRows(), expiryRows(), fleetRows(), failoverRows(), snapshotRows(), rebalanceRows(), scatterRows())
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

	s, where, closeAll, err := open(ctx, *url)
	if err != nil {
		return err
	}
	defer closeAll()
	s.time = *length
	fmt.Printf("%s, %s, %d CPUs, medians of %d rounds of %v\n\n", where, runtime.Version(), runtime.NumCPU(), *rounds, *length)

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tmeasured\tagainst\tratio\tgoal\t")
	for _, r := range rows() {
		if !strings.Contains(r.name, *only) {
			continue
		}
		figures, err := measure(ctx, s, r, *rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		write(table, r, figures)
	}
	return nil
}

func open(ctx context.Context, url string) (s setup, where string, closeAll func(), err error) {
	if url != "" {
		client, err := connect.Open(url)
		if err != nil {
			return s, "", nil, err
		}
		return setup{client: client, url: url}, "the server of --redis", client.Close, nil
	}
	server, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return s, "", nil, err
	}
	if !server.Real {
		return s, "", nil, errors.Join(server.Close(), errors.New("there is no redis-server on PATH, and miniredis would say nothing about speed"))
	}
	return setup{client: server.Client, url: server.URL}, server.Kind, func() { _ = server.Close() }, nil
}

// measure returns the figure of each side in each round.
func measure(ctx context.Context, s setup, r row, rounds int) ([][]float64, error) {
	figures := make([][]float64, len(r.sides))
	for round := range rounds {
		for i, side := range r.sides {
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("%s: round %d of %d, %s", r.name, round+1, rounds, side.name))
			figure, err := side.figure(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			figures[i] = append(figures[i], figure)
		}
	}
	fmt.Fprintf(os.Stderr, "\r%-60s\r", "")
	return figures, nil
}

func write(table *tabwriter.Writer, r row, figures [][]float64) {
	for i := 1; i < len(r.sides); i++ {
		ratio := "-" // of nothing to nothing
		if median(figures[i]) > 0 {
			var ratios []float64
			for round, figure := range figures[0] {
				ratios = append(ratios, figure/figures[i][round])
			}
			ratio = fmt.Sprintf("%.2f", median(ratios))
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s: %s\t%s\t%s\t\n", r.name,
			short(median(figures[0])), r.unit, r.sides[i].name, short(median(figures[i])), ratio, r.sides[i].goal)
	}
	table.Flush()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func short(figure float64) string {
	if figure >= 1000 {
		return fmt.Sprintf("%.1fk", figure/1000)
	}
	return fmt.Sprintf("%.1f", figure)
}
