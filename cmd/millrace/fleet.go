package main

import (
	"context"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/open"
)

// fleetCommands is the noun fleet.
type fleetCommands struct {
	Init      fleetInit      `cmd:"" help:"Make a fleet of empty servers."`
	Add       fleetAdd       `cmd:"" help:"Add partitions to a fleet that is in use; no data moves."`
	Set       fleetSet       `cmd:"" help:"Show the fleet's settings, or change one while the fleet is in use."`
	Show      fleetShow      `cmd:"" help:"Show partitions, their members, what they have left and what happened."`
	Check     fleetCheck     `cmd:"" help:"Check what a fleet assumes: settings, replication, durability, and one home for each tag."`
	Locate    fleetLocate    `cmd:"" help:"Show where a tag is, and how it was found."`
	Forget    fleetForget    `cmd:"" help:"Give up the places of tags that have no keys any more."`
	Agent     fleetAgent     `cmd:"" help:"Watch the fleet, and replace masters that are lost."`
	Failover  fleetFailover  `cmd:"" help:"Make a replica the master of a partition, and lose nothing."`
	Replica   fleetReplica   `cmd:"" help:"Add, remove and move members of partitions."`
	Node      fleetNode      `cmd:"" help:"Replace or drain a machine."`
	Spare     fleetSpare     `cmd:"" help:"Keep empty servers that replace dead members."`
	Restart   fleetRestart   `cmd:"" help:"Restart members one at a time, masters switched first."`
	Recover   fleetRecover   `cmd:"" help:"Rebuild a lost directory from the copies that members and the archive have, or change the directory."`
	Cancel    fleetCancel    `cmd:"" help:"Drop what is left of a change of members."`
	Restore   fleetRestore   `cmd:"" help:"Decide with which data a partition goes on that waits for a person."`
	Snapshot  fleetSnapshot  `cmd:"" help:"Show how old the partitions' snapshots are, or take new ones."`
	Rebalance fleetRebalance `cmd:"" help:"Move tags to other partitions while they are in use."`
	Plan      fleetPlan      `cmd:"" help:"Place the members of a fleet on machines, before it is built."`
}

func (*fleetCommands) Help() string {
	return `A fleet is many Redis servers as one: each tag (what is in the braces of a key, or the whole key) lives on one partition, and partitions are added without moving data. A directory holds the list of servers: etcd (etcd://HOST:PORT,HOST2:PORT2/FLEET), or a small Redis of its own (fleet://HOST:PORT). Every other noun runs on a fleet, too.

    plan ──▶ init ──▶ agent ──▶ show, locate ──▶ add ──▶ show ...
                                     ▲                    │
                                     └────────────────────┘

Examples:

    export MILLRACE_REDIS_URL=fleet://10.0.0.9:7000
    millrace fleet plan --nodes nodes.txt --partitions 6 > fleet.txt
    millrace fleet init --file fleet.txt
    millrace fleet show`
}

// fleetURL returns the URL of the fleet.
func (a *app) fleetURL() (string, error) {
	url := a.url()
	if open.Is(url) {
		return url, open.Check(url)
	}
	err := dial.ErrURL.Errorf("this command needs to know which fleet to work on")
	if url != "" {
		err = dial.ErrURL.Errorf("this command works on a fleet, not on one Redis")
	}
	err.Hint = "Add --redis fleet://HOST:PORT or --redis etcd://HOST:PORT/FLEET, where the fleet's directory is, or set MILLRACE_REDIS_URL."
	return "", a.noURL(err)
}

// openFleet opens the fleet. Close it when done.
func (a *app) openFleet(ctx context.Context) (*fleet.Fleet, error) {
	url, err := a.fleetURL()
	if err != nil {
		return nil, err
	}
	return open.Fleet(ctx, url, a.logger())
}

// withFleet opens the fleet for do.
func (a *app) withFleet(ctx context.Context, do func(f *fleet.Fleet) (any, table, error)) error {
	f, err := a.openFleet(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.show(do(f))
}

// withDirectory opens a directory that answers for do, which is told how to connect to
// members. It may have no fleet yet.
func (a *app) withDirectory(ctx context.Context, do func(dir *directory.Directory, option rueidis.ClientOption) error) error {
	url, err := a.fleetURL()
	if err != nil {
		return err
	}
	dir, option, err := open.Directory(ctx, url)
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir, option)
}

// fleetAt is a fleet with its present map.
type fleetAt struct {
	*fleet.Fleet
	dir    *directory.Directory
	option rueidis.ClientOption // how to connect to members
	m      *directory.Map
}

// withMap opens the fleet for do, which needs a directory that confirms the map, and a map that
// has some partitions.
func (a *app) withMap(ctx context.Context, do func(f *fleetAt) (any, table, error), partitions ...int) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		at := &fleetAt{Fleet: f, dir: directory.Of(f.Client()), option: directory.OptionOf(f.Client())}
		var err error
		if at.m, err = open.Confirm(ctx, a.url(), at.dir); err != nil {
			return nil, nil, err
		}
		for _, id := range partitions {
			if err := at.m.Has(id); err != nil {
				return nil, nil, err
			}
		}
		return do(at)
	})
}

// checkAddr rejects a text that is not the address of a member.
func checkAddr(flag, addr string) error {
	if m, err := directory.ParseMember(addr); err != nil || m.Node != "" {
		return errUsage.Errorf("%s %s: a member is named by its HOST:PORT", flag, addr)
	}
	return nil
}

// help returns a function that runs an agent beside a command until end is called, so that the
// command needs no other one. The agent logs warnings only: the command reports its steps.
func (a *app) help(dir *directory.Directory, option rueidis.ClientOption) failover.Help {
	return beside.Agent(dir, option, agent.Config{Logger: a.loggerFrom(slog.LevelWarn)})
}
