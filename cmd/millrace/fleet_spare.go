package main

import (
	"context"

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
    millrace fleet set replace-after 10m`
}

type spareAdd struct {
	Servers []directory.Member `arg:"" name:"server" help:"Empty servers, as HOST:PORT[@NODE]."`
	proof
}

func (*spareAdd) Help() string {
	return `Each is shut down once, as by init, and must come back with its boot fence, and empty. It stays so until agents need it. All become spares, or none.

Examples:

    millrace fleet spare add 10.0.0.9:7001@i`
}

func (c *spareAdd) Run(ctx context.Context, a *app) error {
	return a.changeSpares(ctx, func(f *fleetAt) (*directory.Map, error) {
		cfg := membership.Config(c.config(ctx, a, f.dir, f.option))
		m, err := cfg.AddSpares(ctx, f.dir, f.m, c.Servers...)
		return m, ofGrowing(ctx, err)
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
	return a.changeSpares(ctx, func(f *fleetAt) (*directory.Map, error) { return membership.RemoveSpares(ctx, f.dir, c.Addrs...) })
}

// changeSpares prints which spares a fleet has after a change.
func (a *app) changeSpares(ctx context.Context, change func(f *fleetAt) (*directory.Map, error)) error {
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		m, err := change(f)
		if err != nil {
			return nil, nil, err
		}
		spares := append([]directory.Member{}, m.Spares...)
		return map[string]any{"spares": spares}, says("the fleet has %s", readable.Count(len(spares), "spare")), nil
	})
}
