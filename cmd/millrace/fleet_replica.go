package main

import (
	"context"
	"time"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/membership"
)

// fleetReplica is fleet replica.
type fleetReplica struct {
	Add    replicaAdd    `cmd:"" help:"Give a partition one more replica."`
	Remove replicaRemove `cmd:"" help:"Take a member out of a partition."`
	Move   replicaMove   `cmd:"" help:"Replace a member of a partition by another server."`
}

func (*fleetReplica) Help() string {
	return `Each command shows its plan, asks, and stores the plan in the map of the fleet. Agents carry it out from then on; the command does so, too, and waits. One that was cut off has lost nothing: agents go on, and the same command waits for the rest.

Examples:

    millrace fleet replica add 3 10.0.0.9:7001@i
    millrace fleet replica remove 3 10.0.0.2:7003
    millrace fleet replica move 3 10.0.0.2:7003 10.0.0.9:7001@i`
}

// serverSpec is a server on a command line: HOST:PORT[@NODE].
type serverSpec directory.Member

// Decode reads one; kong calls it.
func (s *serverSpec) Decode(ctx *kong.DecodeContext) error {
	arg, _ := ctx.Scan.Pop().Value.(string)
	m, err := parseMember(arg)
	if err != nil {
		return errUsage.Errorf("%s: write HOST:PORT[@NODE]", err)
	}
	*s = serverSpec(m)
	return nil
}

func members(specs []serverSpec) []directory.Member {
	list := make([]directory.Member, len(specs))
	for i, s := range specs {
		list[i] = directory.Member(s)
	}
	return list
}

// newServers are the flags of commands that take new servers.
type newServers struct {
	RestartTimeout time.Duration `placeholder:"DURATION" help:"How long a new server may take to come back: each is shut down once, to see that it comes back with its boot fence. Defaults to 30s."`
	SkipRestart    bool          `help:"Restart no new server, and trust that it has its boot fence."`
}

func (n newServers) timeout() time.Duration {
	if n.SkipRestart {
		return -1
	}
	return n.RestartTimeout
}

type replicaAdd struct {
	Partition int        `arg:"" help:"The number of a partition."`
	Server    serverSpec `arg:"" help:"An empty server, as HOST:PORT[@NODE]."`
	newServers
	consent
}

func (*replicaAdd) Help() string {
	return `The server is shut down once, as by init, and must come back with its boot fence. It copies the master, and is a replica when it has all data. Its version must not be older than the master's.

Examples:

    millrace fleet replica add 3 10.0.0.9:7001@i
    millrace fleet replica add 3 10.0.0.9:7001@i --dry-run`
}

func (c *replicaAdd) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.AddReplica{Partition: c.Partition, Member: directory.Member(c.Server)}, c.consent, c.timeout())
}

type replicaRemove struct {
	Partition int    `arg:"" help:"The number of a partition."`
	Addr      string `arg:"" name:"host:port" help:"The address of a member."`
	Force     bool   `help:"Also if fewer replicas stay than writers may wait for. The last copy always stays."`
	consent
}

func (*replicaRemove) Help() string {
	return `A master leaves when another member leads. The server keeps running, fenced, with its data; stop it.

Examples:

    millrace fleet replica remove 3 10.0.0.2:7003
    millrace fleet replica remove 3 10.0.0.2:7003 --force --yes`
}

func (c *replicaRemove) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.RemoveReplica{Partition: c.Partition, Addr: c.Addr, Force: c.Force}, c.consent, 0)
}

type replicaMove struct {
	Partition int        `arg:"" help:"The number of a partition."`
	From      string     `arg:"" help:"The address of the member that leaves."`
	To        serverSpec `arg:"" help:"An empty server, as HOST:PORT[@NODE]."`
	newServers
	consent
}

func (*replicaMove) Help() string {
	return `The new server joins before the other member leaves. If that is the master, the new one becomes it, and nothing is lost.

Examples:

    millrace fleet replica move 3 10.0.0.2:7003 10.0.0.9:7001@i
    millrace fleet replica move 3 10.0.0.2:7003 10.0.0.9:7001@i --yes --json`
}

func (c *replicaMove) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.MoveReplica{Partition: c.Partition, From: c.From, To: directory.Member(c.To)}, c.consent, c.timeout())
}
