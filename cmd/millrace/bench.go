package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace/millrace/cmd/millrace/watch"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

type benchCommand struct {
	Only     []string      `sep:"none" placeholder:"NAME" help:"Measure this figure only, or all of a structure. May be repeated. Defaults to all figures."`
	Duration time.Duration `default:"500ms" placeholder:"DURATION" help:"How long each side of a figure runs in a round. Defaults to 500ms."`
}

// Help shows names and examples.
func (*benchCommand) Help() string {
	return `Measures Millrace on your Redis, over your network. Each figure runs beside its baseline, such as the bare Redis commands, in the same run and with the same client. A ratio below its goal is reported, and is no failure. It takes about a minute.

With --redis it puts load on that server while it runs. All its keys are under a random name, and it deletes them, also when it is interrupted. Without --redis it measures a private server, which ends with the command. It ignores MILLRACE_REDIS_URL, so that no server gets load by mistake.

The figures: ` + strings.Join(bench.Names(), ", ") + `.

Examples:

    millrace bench --redis redis://127.0.0.1:6379
    millrace bench --redis redis://127.0.0.1:6379 --only queue --only lease --json
    millrace bench`
}

func (c *benchCommand) Run(ctx context.Context, a *app) (err error) {
	if c.Duration <= 0 {
		return errUsage.Errorf("a duration must be positive, not %s", c.Duration)
	}
	cfg := bench.Config{Duration: c.Duration, Progress: a.stderr, Live: watch.IsTerminal(a.stderr)}
	if len(c.Only) > 0 {
		if cfg.Figures, err = bench.Choose(c.Only...); err != nil {
			return err
		}
	}
	closeServer, err := a.toMeasure(ctx, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	var unwritten error
	err = a.print(report, func(w io.Writer) { unwritten = report.Table(w) })
	return errors.Join(err, unwritten)
}

// toMeasure opens the server to measure on, that of the command line or a private one,
// and reports which one it is.
func (a *app) toMeasure(ctx context.Context, cfg *bench.Config) (closeServer func() error, err error) {
	switch {
	case open.Is(a.redis):
		f, err := a.openFleet(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Client, cfg.Forget = f.Client(), f.Forget
		scheme, _, _ := strings.Cut(a.redis, "://")
		cfg.Server = scheme + "://" + open.Servers(a.redis)
		fmt.Fprintf(a.stderr, "Putting load on %s.\n", cfg.Server)
		return func() error { f.Close(); return nil }, nil
	case a.redis != "":
		client, err := a.open(ctx)
		if err != nil {
			return nil, err
		}
		_, shown, err := connect.Options(a.redis)
		if err != nil {
			return nil, err
		}
		cfg.Client, cfg.Server = client, shown[0]
		fmt.Fprintf(a.stderr, "Putting load on %s.\n", cfg.Server)
		return func() error { client.Close(); return nil }, nil
	}
	own, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
	if err != nil {
		return nil, err
	}
	if !own.Real {
		missing := redisproc.ErrNotFound.Errorf("%s, and %s would say nothing about Redis", redisproc.ErrNotFound, own.Kind)
		missing.Hint = "Name a server of yours: millrace bench --redis redis://HOST:PORT. Or install one: apt install redis-server, or brew install redis."
		return nil, errors.Join(missing, own.Close())
	}
	cfg.Client, cfg.Server = own.Client, own.Kind+" (embedded, unix socket)"
	fmt.Fprintf(a.stderr, "Started a private %s on a unix socket: THESE ARE NOT THE FIGURES OF A SERVER OF YOURS.\n", own.Kind)
	if a.env("MILLRACE_REDIS_URL") != "" {
		fmt.Fprintln(a.stderr, "MILLRACE_REDIS_URL is ignored, so that no server gets load by mistake.")
	}
	fmt.Fprintln(a.stderr, "To measure one of yours, where it cleans up: --redis URL")
	return own.Close, nil
}
