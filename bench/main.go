package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/redisproc"
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

func run(ctx context.Context) (err error) {
	url := flag.String("redis", "", "URL of a server to measure on; it is written to. Defaults to a private one.")
	rounds := flag.Int("rounds", 5, "rounds of each figure")
	length := flag.Duration("time", time.Second, "how long a side runs in a round")
	only := flag.String("only", "", "measure only figures whose name has this in it")
	flag.Parse()
	if *rounds < 1 || *length <= 0 {
		return errors.New("--rounds and --time must be positive")
	}
	cfg := bench.Config{Server: "the server of --redis", Duration: *length, Rounds: *rounds, Progress: os.Stderr}
	if *url == "" {
		server, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		if !server.Real {
			return errors.New("no redis-server on PATH; figures of miniredis would say nothing about Redis")
		}
		*url, cfg.Server = server.URL, server.Kind
	}
	if cfg.Client, err = dial.Redis(ctx, *url); err != nil {
		return err
	}
	defer cfg.Client.Close()
	cfg.Figures = slices.DeleteFunc(figures(), func(f bench.Figure) bool { return !strings.Contains(f.What, *only) })
	report, err := bench.Run(ctx, cfg)
	return errors.Join(err, report.Table(os.Stdout))
}

// figures are all figures: those of millrace bench, and those that start servers of their own.
func figures() []bench.Figure {
	return slices.Concat(bench.Figures(), slowFigures(), serviceFigures(), fleetFigures(), plannedFigures(), scatterFigures())
}

// moveTo has the side work on a server of its own, which is stopped at the end.
func moveTo(ctx context.Context, b *bench.B, cfg redisproc.Config) *redisproc.Proc {
	server := must.Get(b.Server(ctx, cfg))
	b.Client = must.Get(b.Dial(ctx, server.URL()))
	return server
}
