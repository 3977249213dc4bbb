package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/redisproc"
)

type fleetDev struct {
	Nodes      int        `default:"3" placeholder:"N" help:"How many machines to play. Defaults to 3."`
	Partitions int        `default:"4" placeholder:"N" help:"How many partitions. Defaults to 4."`
	Replicas   int        `default:"1" placeholder:"N" help:"How many replicas a partition has. Defaults to 1."`
	Dir        string     `placeholder:"DIR" help:"The folder to work in, which stays. Defaults to a temporary one, which goes."`
	MaxMemory  memorySize `placeholder:"SIZE" help:"The memory limit of each server, such as 64mb. Defaults to none."`
}

// Help shows examples.
func (*fleetDev) Help() string {
	return `It starts real servers on this machine, one for each member, and a directory; nodes are only names. It runs until it is interrupted (Ctrl-C, SIGTERM), ends all that it started, and nothing is left of the data. That a server died is said on standard error.

With --json it prints one line when all serve: {"ready":true,"directory":"fleet://HOST:PORT"}.

Examples:

    millrace fleet dev
    millrace fleet dev --nodes 3 --partitions 4 --replicas 1 --dir ./fleet --json`
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
		return errUsage.Saying("a fleet of %d partitions on %d nodes cannot be", c.Partitions, c.Nodes)
	case c.Replicas < 0:
		return errUsage.Saying("%d replicas cannot be", c.Replicas)
	}
	log := a.logger()
	cfg := devfleet.Config{
		Nodes: c.Nodes, Partitions: c.Partitions, Replicas: c.Replicas, Dir: c.Dir, Pin: true,
		Exited: func(s devfleet.Server) { log.WarnContext(ctx, s.String()+" died", "addr", s.Addr, "pid", s.Proc.PID()) },
	}
	if c.Replicas == 0 {
		cfg.Replicas = devfleet.NoReplicas
	}
	if c.MaxMemory > 0 {
		cfg.MaxMemory = fmt.Sprint(int64(c.MaxMemory))
	}
	f, err := devfleet.Start(ctx, cfg)
	switch {
	case errors.Is(err, redisproc.ErrNotFound):
		return errNoServer
	case err != nil:
		return err
	}
	if err := c.ready(a, f); err != nil {
		return errors.Join(err, f.Stop())
	}
	<-ctx.Done()
	return f.Stop()
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
	})
}
