package main

import (
	"context"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/membership"
)

// decodeMember reads a server on a command line, HOST:PORT[@NODE]; kong calls it.
func decodeMember(ctx *kong.DecodeContext, target reflect.Value) error {
	m, err := directory.ParseMember(word(ctx))
	if err != nil {
		return errUsage.Errorf("%s: write HOST:PORT[@NODE]", err)
	}
	target.Set(reflect.ValueOf(m))
	return nil
}

// newServers are the flags of commands that replace members by new servers.
type newServers struct {
	proof
	consent
}

// asPlanned is the help that commands on members have in common.
const asPlanned = `Each command shows its plan, asks, and stores the plan in the map of the fleet. Agents carry it out from then on; the command does so, too, and waits. One that was cut off has lost nothing: agents go on, and the same command waits for the rest.

Examples:
`

type fleetReplica struct {
	Add  replicaAdd  `cmd:"" help:"Give a partition one more replica."`
	Rm   replicaRm   `cmd:"" help:"Take a member out of a partition."`
	Move replicaMove `cmd:"" help:"Replace a member of a partition by another server."`
}

func (*fleetReplica) Help() string {
	return asPlanned + `
    millrace fleet replica move 3 10.0.0.2:7003 10.0.0.9:7001@i`
}

type replicaAdd struct {
	Partition int              `arg:"" help:"The number of a partition."`
	Server    directory.Member `arg:"" help:"An empty server, as HOST:PORT[@NODE]."`
	newServers
}

func (*replicaAdd) Help() string {
	return `The server is shut down once, as by init, and must come back with its boot fence. It copies the master, and is a replica when it has all data. Its version must not be older than the master's.

Examples:

    millrace fleet replica add 3 10.0.0.9:7001@i --dry-run`
}

func (c *replicaAdd) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.AddReplica{Partition: c.Partition, Member: c.Server}, c.newServers)
}

type replicaRm struct {
	Partition int    `arg:"" help:"The number of a partition."`
	Addr      string `arg:"" name:"host:port" help:"The address of a member."`
	Force     bool   `help:"Also if fewer replicas stay than writers may wait for. The last copy always stays."`
	consent
}

func (*replicaRm) Help() string {
	return `A master leaves when another member leads. The server keeps running, fenced, with its data; stop it.

Examples:

    millrace fleet replica rm 3 10.0.0.2:7003 --force`
}

func (c *replicaRm) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.RemoveReplica{Partition: c.Partition, Addr: c.Addr, Force: c.Force}, newServers{consent: c.consent})
}

type replicaMove struct {
	Partition int              `arg:"" help:"The number of a partition."`
	From      string           `arg:"" help:"The address of the member that leaves."`
	To        directory.Member `arg:"" help:"An empty server, as HOST:PORT[@NODE]."`
	newServers
}

func (*replicaMove) Help() string {
	return `The new server joins before the other member leaves. If that is the master, the new one becomes it, and nothing is lost.

Examples:

    millrace fleet replica move 3 10.0.0.2:7003 10.0.0.9:7001@i --yes --json`
}

func (c *replicaMove) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.MoveReplica{Partition: c.Partition, From: c.From, To: c.To}, c.newServers)
}

type fleetNode struct {
	Replace nodeReplace `cmd:"" help:"Replace all members on a node by other servers."`
	Drain   nodeDrain   `cmd:"" help:"Move all members off a node."`
}

func (*fleetNode) Help() string {
	return `A node is a machine: what stands behind the @ of its members, or their host. ` + asPlanned + `
    millrace fleet node drain a 10.0.0.2:7011@b 10.0.0.3:7011@c`
}

type nodeReplace struct {
	Node    string             `arg:"" help:"The name of a node, or the host of members without one."`
	Servers []directory.Member `arg:"" name:"server" help:"Empty servers, one for each member on the node, as HOST:PORT[@NODE]."`
	newServers
}

func (*nodeReplace) Help() string {
	return `Each member on the node is replaced by one of the servers, which joins before the member leaves. Masters are followed by masters, so that all nodes have equally many again. The node may be gone: then agents have made other members the masters already.

Examples:

    millrace fleet node replace 10.0.0.1 10.0.0.9:7001 --dry-run`
}

func (c *nodeReplace) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.ReplaceNode{Node: c.Node, Servers: c.Servers}, c.newServers)
}

type nodeDrain struct {
	Node    string             `arg:"" help:"The name of a node, or the host of members without one."`
	Servers []directory.Member `arg:"" optional:"" name:"server" help:"Empty servers on other nodes, as HOST:PORT[@NODE], one for each member on the node. Defaults to none: members leave, and partitions have fewer."`
	newServers
}

func (*nodeDrain) Help() string {
	return `Members of the node move to the servers, which join before the members leave, and are spread evenly over the other nodes; so are the masters. Without servers members leave if enough copies remain for what writers wait for.

Examples:

    millrace fleet node drain a --dry-run`
}

func (c *nodeDrain) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.DrainNode{Node: c.Node, Servers: c.Servers}, c.newServers)
}

type fleetRestart struct {
	Node []string `placeholder:"NODE" help:"Restart only the members on this node. May be repeated. Defaults to all."`
	consent
}

func (*fleetRestart) Help() string {
	return `Members are shut down one at a time in the whole fleet, and their supervisors start them again, perhaps as another version. Each has all data again before the next one goes. Replicas go first; a master is switched before its turn, and nothing is lost. Writers that wait for a replica have to wait while a partition's only one is away.

A command that was cut off is finished by agents, and the same command waits for the rest. When all is done, the same command restarts all once more.

Examples:

    millrace fleet restart --node a`
}

func (c *fleetRestart) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.Restart{Nodes: c.Node}, newServers{consent: c.consent})
}

type fleetCancel struct {
	Plan string `arg:"" help:"The plan of a change, as fleet show has it."`
	consent
}

func (*fleetCancel) Help() string {
	return `It drops what is left of a change of members (fleet replica, fleet node, fleet restart), for instance because a new server has died and will never join. What has been done stays: a server that has joined is a replica, and a member that is leaving leaves. Then the change can be made again, with other servers.

Examples:

    millrace fleet cancel replace-6vzk4qbv`
}

func (c *fleetCancel) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.Cancel{Plan: c.Plan}, newServers{consent: c.consent})
}
