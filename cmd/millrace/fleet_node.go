package main

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/membership"
)

// fleetNode is fleet node.
type fleetNode struct {
	Replace nodeReplace `cmd:"" help:"Replace all members on a node by other servers."`
	Drain   nodeDrain   `cmd:"" help:"Move all members off a node."`
}

func (*fleetNode) Help() string {
	return `A node is a machine: what stands behind the @ of its members, or their host. Each command shows its plan, asks, and stores the plan in the map of the fleet. Agents carry it out from then on; the command does so, too, and waits. One that was cut off has lost nothing: agents go on, and the same command waits for the rest.

Examples:

    millrace fleet node replace a 10.0.0.9:7001@i 10.0.0.9:7002@i
    millrace fleet node drain a 10.0.0.2:7011@b 10.0.0.3:7011@c`
}

type nodeReplace struct {
	Node    string       `arg:"" help:"The name of a node, or the host of members without one."`
	Servers []serverSpec `arg:"" name:"server" help:"Empty servers, one for each member on the node, as HOST:PORT[@NODE]."`
	newServers
	consent
}

func (*nodeReplace) Help() string {
	return `Each member on the node is replaced by one of the servers, which joins before the member leaves. Masters are followed by masters, so that all nodes have equally many again. The node may be gone: then agents have made other members the masters already.

Examples:

    millrace fleet node replace a 10.0.0.9:7001@i 10.0.0.9:7002@i
    millrace fleet node replace 10.0.0.1 10.0.0.9:7001 --dry-run`
}

func (c *nodeReplace) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.ReplaceNode{Node: c.Node, Servers: members(c.Servers)}, c.consent, c.timeout())
}

type nodeDrain struct {
	Node    string       `arg:"" help:"The name of a node, or the host of members without one."`
	Servers []serverSpec `arg:"" optional:"" name:"server" help:"Empty servers on other nodes, as HOST:PORT[@NODE], one for each member on the node. Defaults to none: members leave, and partitions have fewer."`
	newServers
	consent
}

func (*nodeDrain) Help() string {
	return `Members of the node move to the servers, which join before the members leave, and are spread evenly over the other nodes; so are the masters. Without servers members leave if enough copies remain for what writers wait for.

Examples:

    millrace fleet node drain a 10.0.0.2:7011@b 10.0.0.3:7011@c
    millrace fleet node drain a --dry-run`
}

func (c *nodeDrain) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.DrainNode{Node: c.Node, Servers: members(c.Servers)}, c.consent, c.timeout())
}
