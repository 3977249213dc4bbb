package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/readable"
)

type fleetSpare struct {
	Add spareAdd `cmd:"" help:"Keep empty servers that replace dead members."`
	Rm  spareRm  `cmd:"" help:"Take spares back."`
}

func (*fleetSpare) Help() string {
	return `When a member has been dead for replace-after (fleet set; never by default), agents give its place to a spare on another machine than the partition's other members: the spare copies the master, and then the dead member leaves. One member at a time is replaced in the whole fleet. A member that comes back meanwhile leaves all the same; empty it, and add it as a spare.

Examples:

    millrace fleet spare add 10.0.0.9:7001@i 10.0.0.9:7002@i
    millrace fleet set replace-after 10m
    millrace fleet spare rm 10.0.0.9:7002`
}

type spareAdd struct {
	Servers        []directory.Member `arg:"" name:"server" help:"Empty servers, as HOST:PORT[@NODE]."`
	RestartTimeout time.Duration      `placeholder:"DURATION" help:"How long a server may take to come back: each is shut down once, to see that it comes back with its boot fence. Defaults to 30s."`
	SkipRestart    bool               `help:"Restart no server, and trust that it has its boot fence."`
}

func (*spareAdd) Help() string {
	return `Each is shut down once, as by init, and must come back with its boot fence, and empty. It stays so until agents need it. All become spares, or none.

Examples:

    millrace fleet spare add 10.0.0.9:7001@i`
}

// sparesDoc has the spares of a fleet.
type sparesDoc struct {
	Spares []directory.Member `json:"spares"`
}

func (c *spareAdd) Run(ctx context.Context, a *app) error {
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		log := a.logger()
		cfg := membership.Config{Option: f.option, RestartTimeout: c.RestartTimeout, Progress: func(step string) { log.InfoContext(ctx, step) }}
		if c.SkipRestart {
			cfg.RestartTimeout = -1
		}
		m, err := cfg.AddSpares(ctx, f.dir, f.m, c.Servers...)
		if err != nil {
			return nil, nil, ofGrowing(ctx, err)
		}
		return haveSpares(m)
	})
}

type spareRm struct {
	Addrs []string `arg:"" name:"host:port" help:"The addresses of spares."`
}

func (*spareRm) Help() string {
	return `The servers stay as they are: empty and fenced.

Examples:

    millrace fleet spare rm 10.0.0.9:7001`
}

func (c *spareRm) Run(ctx context.Context, a *app) error {
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		m, err := membership.RemoveSpares(ctx, f.dir, c.Addrs...)
		if err != nil {
			return nil, nil, err
		}
		return haveSpares(m)
	})
}

// haveSpares says which spares a fleet has.
func haveSpares(m *directory.Map) (any, table, error) {
	return sparesDoc{append([]directory.Member{}, m.Spares...)}, says("the fleet has %s", readable.Count(len(m.Spares), "spare")), nil
}
