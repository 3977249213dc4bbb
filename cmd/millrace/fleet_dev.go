package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/beside"
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

func (*fleetDev) Help() string {
	return `It starts real servers on this machine, one for each member, a directory and an agent; nodes are only names. It runs until it is interrupted (Ctrl-C, SIGTERM), and then ends its servers and deletes their data.

Cause accidents with lines on standard input: kill, freeze, resume or restart, with the address of a server, or the number of a partition for its present master. servers lists the servers, and help lists the commands.

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

func (c *fleetDev) Run(ctx context.Context, a *app) error {
	switch {
	case c.Nodes < 1 || c.Partitions < 1:
		return errUsage.Errorf("a fleet needs at least one partition and one node, not %d and %d", c.Partitions, c.Nodes)
	case c.Replicas < 0:
		return errUsage.Errorf("a partition cannot have %d replicas", c.Replicas)
	case c.RestartAfter < 0:
		return errUsage.Errorf("--restart-after cannot be %s", c.RestartAfter)
	}
	cfg := devfleet.Config{Nodes: c.Nodes, Partitions: c.Partitions, Replicas: c.Replicas, Dir: c.Dir, RestartAfter: c.RestartAfter, Logger: a.logger()}
	if c.Replicas == 0 {
		cfg.Replicas = devfleet.NoReplicas
	}
	if c.MaxMemory > 0 {
		cfg.MaxMemory = strconv.FormatInt(int64(c.MaxMemory), 10)
	}
	servers, err := devfleet.Start(ctx, cfg)
	switch {
	case errors.Is(err, redisproc.ErrNotFound):
		return errNoServer
	case err != nil:
		return err
	}
	return errors.Join(c.serve(ctx, a, servers), servers.Stop())
}

// serve runs an agent, and does what lines of standard input say, until it is interrupted.
func (*fleetDev) serve(ctx context.Context, a *app, servers *devfleet.Fleet) error {
	option := rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}}
	dir, err := directory.Dial(option)
	if err != nil {
		return err
	}
	defer dir.Close()
	doc := struct {
		Ready     bool   `json:"ready"`
		Directory string `json:"directory"`
	}{true, servers.URL()}
	err = a.print(doc, func(w io.Writer) {
		devfleet.List(w, servers.States(ctx), false)
		fmt.Fprintf(w, `
The fleet serves, until this command is interrupted. In another shell:

    export MILLRACE_REDIS_URL=%s
    millrace fleet show
    millrace fleet locate user:7
    millrace queue write orders --tenant acme --body hello
    millrace doctor

And here, a line each: kill 0, freeze 0, resume 0, restart 0, servers, help
`, servers.URL())
	})
	if err != nil {
		return err
	}
	defer beside.Agent(dir, option, agent.Config{Interval: 250 * time.Millisecond, Logger: a.logger()})(ctx)()
	neverStopForInput()
	lines := make(chan string)
	go func() { // which may wait for a line for as long as the process lives
		for scanner := bufio.NewScanner(a.stdin); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines: // whose end is not the fleet's
			if err := a.show(servers.Execute(ctx, line)); err != nil && ctx.Err() == nil {
				a.fail(err, "help")
			}
		case <-ctx.Done():
			return nil
		}
	}
}
