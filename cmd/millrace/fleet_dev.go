package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redisproc"
)

type fleetDev struct {
	Nodes        int           `default:"3" placeholder:"N" help:"How many machines to play. Defaults to 3."`
	Partitions   int           `default:"4" placeholder:"N" help:"How many partitions. Defaults to 4."`
	Replicas     int           `default:"1" placeholder:"N" help:"How many replicas a partition has. Defaults to 1."`
	Dir          string        `placeholder:"DIR" help:"The folder to work in, which stays. Defaults to a temporary one, which goes."`
	MaxMemory    memorySize    `placeholder:"SIZE" help:"The memory limit of each server, such as 64mb. Defaults to none."`
	RestartAfter time.Duration `default:"5s" placeholder:"DURATION" help:"How long after its death a server is restarted, without its data; 0 for never. Defaults to 5s."`
}

// Help shows examples.
func (*fleetDev) Help() string {
	return `It starts real servers on this machine, one for each member, a directory, and an agent that replaces masters; nodes are only names. It runs until it is interrupted (Ctrl-C, SIGTERM), ends all that it started, and nothing is left of the data. What happens is said on standard error.

Accidents are to be had by a line of standard input, while something else writes: kill, freeze, resume or restart, with the address of a server, or the number of a partition for its master of the moment; servers lists them, and help says it again.

With --json it prints one line when all serve: {"ready":true,"directory":"fleet://HOST:PORT"}.

Examples:

    millrace fleet dev
    millrace fleet dev --nodes 3 --partitions 4 --replicas 1 --dir ./fleet --json
    (sleep 10; echo kill 0; sleep 20) | millrace fleet dev`
}

// errNoServer means that there is no server to run.
var errNoServer = &millrace.Error{
	Code: "no_server", Message: "no redis-server or valkey-server is on PATH",
	Hint: "Install one: apt install redis-server, or brew install redis.",
}

// Run runs a fleet until it is interrupted.
func (c *fleetDev) Run(ctx context.Context, a *app) error {
	switch {
	case c.Nodes < 1 || c.Partitions < 1:
		return errUsage.Errorf("a fleet of %d partitions on %d nodes cannot be", c.Partitions, c.Nodes)
	case c.Replicas < 0:
		return errUsage.Errorf("%d replicas cannot be", c.Replicas)
	case c.RestartAfter < 0:
		return errUsage.Errorf("nothing can be restarted after %s", c.RestartAfter)
	}
	log := a.logger()
	f, err := devfleet.Start(ctx, c.config(ctx, log))
	switch {
	case errors.Is(err, redisproc.ErrNotFound):
		return errNoServer
	case err != nil:
		return err
	}
	if err := c.serve(ctx, a, log, f); err != nil {
		return errors.Join(err, f.Stop())
	}
	return f.Stop()
}

func (c *fleetDev) config(ctx context.Context, log *slog.Logger) devfleet.Config {
	cfg := devfleet.Config{
		Nodes: c.Nodes, Partitions: c.Partitions, Replicas: c.Replicas, Dir: c.Dir, Pin: true,
		Exited:       func(s devfleet.Server) { log.WarnContext(ctx, s.String()+" died", "addr", s.Addr, "pid", s.Proc.PID()) },
		RestartAfter: c.RestartAfter,
		Restarted: func(s devfleet.Server, err error) {
			if err != nil {
				log.WarnContext(ctx, s.String()+" cannot be restarted", "addr", s.Addr, "error", err)
				return
			}
			log.InfoContext(ctx, s.String()+" was restarted", "addr", s.Addr, "pid", s.Proc.PID())
		},
	}
	if c.Replicas == 0 {
		cfg.Replicas = devfleet.NoReplicas
	}
	if c.MaxMemory > 0 {
		cfg.MaxMemory = fmt.Sprint(int64(c.MaxMemory))
	}
	return cfg
}

// devEvery is how often the agent of a fleet on one machine looks at its members.
const devEvery = 250 * time.Millisecond

// serve has an agent watch the fleet, and does what standard input says, until the
// command is interrupted.
func (c *fleetDev) serve(ctx context.Context, a *app, log *slog.Logger, f *devfleet.Fleet) error {
	option := rueidis.ClientOption{InitAddress: []string{f.DirectoryAddr()}}
	dir, err := directory.Dial(option)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := c.ready(a, f); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- (&fleetAgent{Every: devEvery}).watch(ctx, dir, option, log) }()
	(&devConsole{a: a, fleet: f, dir: dir}).run(ctx)
	stop()
	return <-watched
}

// ready says that the fleet serves.
func (*fleetDev) ready(a *app, f *devfleet.Fleet) error {
	doc := struct {
		Ready     bool   `json:"ready"`
		Directory string `json:"directory"`
	}{true, f.URL()}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintln(w, "ROLE\tPARTITION\tNODE\tADDRESS\tPID")
		fmt.Fprintf(w, "%s\t\t\t%s\t%d\n", devfleet.Directory, f.DirectoryAddr(), f.Directory().Proc.PID())
		for _, s := range f.Servers() {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\n", s.Role, s.Partition, s.Node, s.Addr, s.Proc.PID())
		}
		fmt.Fprintf(w, "\nThe fleet serves, until this command is interrupted. In another shell:\n\n")
		fmt.Fprintf(w, "    export MILLRACE_REDIS_URL=%s\n", f.URL())
		for _, try := range []string{"fleet show", "fleet locate user:7", "queue write orders --tenant acme --body hello", "doctor"} {
			fmt.Fprintf(w, "    millrace %s\n", try)
		}
		fmt.Fprintf(w, "\nAnd here, a line each: kill 0, freeze 0, resume 0, restart 0, servers, help\n")
	})
}
