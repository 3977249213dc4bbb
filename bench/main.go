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

	"github.com/millrace/millrace/cmd/millrace/bench"
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

// figures are those of millrace bench, beside asynq on the server of that URL, and
// those that need servers of their own.
func figures(url string) []bench.Figure {
	common := bench.Figures()
	for i, f := range common {
		common[i] = againstAsynq(f, url)
	}
	return slices.Concat(common, queueFigures(url), memoryFigures(), fleetFigures(), failoverFigures(), snapshotFigures(), rebalanceFigures(), scatterFigures())
}

func run(ctx context.Context) (err error) {
	url := flag.String("redis", "", "URL of a server to measure on; it is written to. Defaults to a private one.")
	rounds := flag.Int("rounds", 5, "rounds of each figure")
	length := flag.Duration("time", time.Second, "how long a side runs in a round")
	only := flag.String("only", "", "measure only figures whose name has this in it")
	flag.Parse()
	if *rounds < 1 || *length <= 0 {
		return errors.New("--rounds and --time must be positive")
	}

	at, err := open(ctx, *url)
	if err != nil {
		return err
	}
	defer at.close()
	defer func() { err = errors.Join(err, stopFleets()) }()
	at.Time = *length
	fmt.Printf("%s, %s, %d CPUs, medians of %d rounds of %v\n\n", at.says, runtime.Version(), runtime.NumCPU(), *rounds, *length)

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "what\tmeasured\tagainst\tratio\tgoal\t")
	for _, f := range figures(at.url) {
		if !strings.Contains(f.What, *only) {
			continue
		}
		result, err := f.Compare(ctx, at.Place, *rounds, func(round int, side string) {
			fmt.Fprintf(os.Stderr, "\r%-60s", fmt.Sprintf("%s: round %d of %d, %s", f.What, round, *rounds, side))
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "\r%-60s\r", "")
		write(table, result)
	}
	return nil
}

// site is where to measure.
type site struct {
	bench.Place

	url   string // of the server, for those who bring a client of their own
	says  string // what it is, for people
	close func()
}

// open connects to the server of the URL, or to one of its own.
func open(ctx context.Context, url string) (*site, error) {
	if url != "" {
		client, err := connect.Open(url)
		if err != nil {
			return nil, err
		}
		return &site{bench.Place{Client: client, Name: "bench", Open: opener(url)}, url, "the server of --redis", client.Close}, nil
	}
	server, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return nil, err
	}
	if !server.Real {
		return nil, errors.Join(server.Close(), errors.New("there is no redis-server on PATH, and miniredis would say nothing about speed"))
	}
	return &site{bench.Place{Client: server.Client, Name: "bench", Open: opener(server.URL)}, server.URL, server.Kind, func() { _ = server.Close() }}, nil
}

func opener(url string) func() (rueidis.Client, error) {
	return func() (rueidis.Client, error) { return connect.Open(url) }
}

func write(table *tabwriter.Writer, r bench.Result) {
	for _, a := range r.Against {
		fmt.Fprintf(table, "%s\t%s %s\t%s: %s\t%s\t%s\t\n", r.What,
			bench.Short(r.Value), r.Unit, a.Name, bench.Short(a.Value), a.ShownRatio(), a.ShownGoal(r.Unit))
	}
	table.Flush()
}
