package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/readable"
)

// partitionSpec is a partition on a command line.
type partitionSpec grow.Partition

var errSpec = &millrace.Error{
	Code: "bad_argument",
	Hint: "Write HOST:PORT[@NODE] for the master, the same for each replica behind a comma, and weight=N at the end for more than one share: 10.0.0.1:7001@a,10.0.0.2:7001@b,weight=2",
}

// Decode reads one; kong calls it.
func (p *partitionSpec) Decode(ctx *kong.DecodeContext) error {
	arg, _ := ctx.Scan.Pop().Value.(string)
	return p.parse(arg)
}

// parse reads one.
func (p *partitionSpec) parse(arg string) error {
	*p = partitionSpec{}
	for i, part := range strings.Split(arg, ",") {
		if weight, ok := strings.CutPrefix(part, "weight="); ok && i > 0 {
			n, err := strconv.Atoi(weight)
			if err != nil || n < 1 || p.Weight != 0 {
				return errSpec.Errorf("partition %q has no weight: %q", arg, part)
			}
			p.Weight = n
			continue
		}
		m, err := parseMember(part)
		if err != nil {
			return errSpec.Errorf("partition %q: %s", arg, err)
		}
		if i == 0 {
			p.Master = m
		} else {
			p.Replicas = append(p.Replicas, m)
		}
	}
	return nil
}

// parseMember reads HOST:PORT or HOST:PORT@NODE.
func parseMember(text string) (directory.Member, error) {
	addr, node, named := strings.Cut(text, "@")
	host, port, err := net.SplitHostPort(addr)
	number, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil, portErr != nil, host == "", number == 0:
		return directory.Member{}, fmt.Errorf("%q is no HOST:PORT", addr)
	case named && (node == "" || strings.Contains(node, "@")):
		return directory.Member{}, fmt.Errorf("%q names no node", text)
	}
	return directory.Member{Addr: addr, Node: node}, nil
}

// newPartitions is the flag of both init and add.
type newPartitions struct {
	Partition      []partitionSpec `sep:"none" xor:"partitions" placeholder:"SPEC" help:"A partition: its master and its replicas, as HOST:PORT[@NODE], with commas between them, and weight=N at the end for more than one share of the ring. May be repeated."`
	File           string          `xor:"partitions" placeholder:"FILE" help:"In place of --partition, a file with one SPEC a line, as fleet plan prints it; - for standard input."`
	RestartTimeout time.Duration   `placeholder:"DURATION" help:"How long a server may take to come back: each is shut down once, to see that it comes back with its boot fence. Defaults to 30s."`
	SkipRestart    bool            `help:"Restart no server, and trust that it has its boot fence."`
}

// restartTimeout returns the setting of package grow, which is negative for no restart.
func (n newPartitions) restartTimeout() time.Duration {
	if n.SkipRestart {
		return -1
	}
	return n.RestartTimeout
}

// partitions returns those of the flags, or of the file.
func (n newPartitions) partitions(ctx context.Context, a *app) ([]grow.Partition, error) {
	switch {
	case n.File != "":
		return a.readPartitions(ctx, n.File)
	case len(n.Partition) == 0:
		return nil, errUsage.Errorf("no partitions are given").WithHint("Name a file with --file, or each partition with --partition: 10.0.0.1:7001@a,10.0.0.2:7001@b")
	}
	list := make([]grow.Partition, len(n.Partition))
	for i, p := range n.Partition {
		list[i] = grow.Partition(p)
	}
	return list, nil
}

// grow makes a fleet, or a larger one, and prints it.
func (n newPartitions) grow(ctx context.Context, a *app, partitions []grow.Partition, settings directory.Settings,
	change func(context.Context, *directory.Directory, []grow.Partition, grow.Config) (*directory.Map, error),
) error {
	err := a.withDirectory(ctx, func(dir *directory.Directory, option rueidis.ClientOption) error {
		log := a.logger()
		_, err := change(ctx, dir, partitions, grow.Config{
			Option: option, Settings: settings, RestartTimeout: n.restartTimeout(), Progress: func(step string) { log.InfoContext(ctx, step) },
			Agent: a.help(dir, option),
		})
		return err
	})
	if err != nil {
		return ofGrowing(ctx, err)
	}
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		return a.showFleet(ctx, f, fmt.Sprintf("done: %s\n\n", readable.Count(len(directory.MapOf(f.Client()).Partitions), "partition")))
	})
}

// ofGrowing gives errors hints about making a fleet.
func ofGrowing(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errCut
	case errors.Is(err, fleet.ErrUnavailable):
		unavailable := fleet.ErrUnavailable.Errorf("%s", overview.OneLine(err))
		unavailable.Hint = "Start a redis-server there, or give the right address, and repeat the command: it skips what is done."
		return unavailable
	}
	return err
}

// errCut means that a signal ended a command that may be half done.
var errCut = &millrace.Error{
	Code: "interrupted", Message: "interrupted",
	Hint: "Repeat the command, for the same servers: it skips what is done.",
}

type fleetInit struct {
	newPartitions
	ViewTTL      time.Duration `name:"view-life" placeholder:"DURATION" help:"For how long a client may write after it asked the directory. Defaults to 1s, and with etcd to 3s."`
	ReplyTimeout time.Duration `name:"reply-limit" placeholder:"DURATION" help:"How long a write may take and still be a success. Defaults to 500ms."`
	PlacementTTL time.Duration `name:"placement-life" placeholder:"DURATION" help:"For how long a client remembers where a tag is, and how long forgetting takes. Defaults to 10s."`
	MaxTags      int64         `placeholder:"N" help:"How many tags a partition takes before it sends new ones on. Defaults to no limit."`
	MaxFill      int           `placeholder:"PERCENT" help:"How full of its maxmemory a partition may be and still take new tags. Defaults to 80."`
	Confirmed    int           `placeholder:"N" help:"How many replicas writers may wait for, to be sure: a failover goes on only when it sees so many replicas that none of that is lost. Defaults to 1."`
	MaxAge       time.Duration `placeholder:"DURATION" help:"How far a partition's newest data may be behind what was there for agents to go on with it; older data waits for fleet restore. For a fleet that has snapshots only: their interval, and their time. Defaults to 3s."`
}

func (*fleetInit) Help() string {
	return `The servers must run and be empty, and so must the directory that --redis names. view-life, reply-limit, placement-life, confirmed and max-age do not change later; the other settings do, with fleet set. Each server is shut down once (CONFIG REWRITE, SHUTDOWN NOSAVE): its supervisor must restart it with the boot fence on its command line, --replicaof 127.0.0.1 1 --replica-serve-stale-data no. Then masters are promoted and replicas follow them. Progress goes to standard error. To finish a command that was cut off, repeat it.

With @NODE, two members of a partition on one machine are refused; without it the command cannot know.

A file names partitions one a line, with # for comments. fleet plan prints one.

Examples:

    millrace fleet init --redis fleet://10.0.0.1:7000 --file fleet.txt
    millrace fleet init --redis fleet://10.0.0.1:7000 --partition 10.0.0.1:7001@a,10.0.0.2:7001@b --partition 10.0.0.2:7002@b,10.0.0.1:7002@a
    millrace fleet init --redis etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/shop --partition 10.0.0.1:7001@a,10.0.0.2:7001@b
    millrace fleet init --redis fleet://10.0.0.1:7000 --partition 10.0.0.1:7001 --max-fill 70`
}

func (c *fleetInit) Run(ctx context.Context, a *app) error {
	c.ViewTTL = cmp.Or(c.ViewTTL, a.defaultSettings().ViewTTL)
	if isEtcd(a.url()) && c.ViewTTL < etcdViewTTL {
		return errUsage.Errorf("view-life cannot be %s with a directory in etcd, which confirms nothing while it elects a leader: the fleet would be read-only then", c.ViewTTL).
			WithHint("Leave it out: the default is 3s, three election timeouts of etcd.")
	}
	settings := directory.Settings{
		ViewTTL: c.ViewTTL, ReplyTimeout: c.ReplyTimeout, PlacementTTL: c.PlacementTTL, MaxTags: c.MaxTags, MaxFill: c.MaxFill, Confirmed: c.Confirmed, MaxAge: c.MaxAge,
	}
	partitions, err := c.partitions(ctx, a)
	if err != nil {
		return err
	}
	for i, p := range partitions {
		if need := c.Confirmed; need > 1 && need > len(p.Replicas) { // writes that wait for so many would fail
			return errUsage.Errorf("confirmed cannot be %d: partition %d has %s", need, i, readable.Count(len(p.Replicas), "replica")).
				WithHint("Name so many replicas of each partition. The default, 1, is for all fleets.")
		}
	}
	return c.grow(ctx, a, partitions, settings, grow.Init)
}

// defaultSettings returns the settings that depend on the kind of the directory.
func (a *app) defaultSettings() (s directory.Settings) {
	if isEtcd(a.url()) {
		s.ViewTTL = etcdViewTTL
	}
	return s
}

// etcdViewTTL is three election timeouts of etcd, by its default of a second: while it
// elects a leader it confirms nothing.
const etcdViewTTL = 3 * time.Second

type fleetAdd struct {
	newPartitions
}

func (*fleetAdd) Help() string {
	return `The servers are shut down once, as by init, and must come back with their boot fence. No data moves: a new partition takes over a part of the tags that are yet to come. It takes a few seconds: first all clients look for tags there, too, and only then are new ones placed there. A command that was cut off is finished by the same command again.

Add as many partitions as there are, and each gets half of what one had.

Examples:

    millrace fleet add --partition 10.0.0.5:7001@e,10.0.0.6:7001@f
    millrace fleet add --partition 10.0.0.5:7001@e,weight=2
    millrace fleet add --file more.txt`
}

func (c *fleetAdd) Run(ctx context.Context, a *app) error {
	partitions, err := c.partitions(ctx, a)
	if err != nil {
		return err
	}
	return c.grow(ctx, a, partitions, directory.Settings{}, grow.Add)
}

// memorySize is an amount of memory on a command line: 96gb, 200kb, 1024.
type memorySize int64

// Decode reads one; kong calls it.
func (m *memorySize) Decode(ctx *kong.DecodeContext) error {
	arg, _ := ctx.Scan.Pop().Value.(string)
	n, err := plan.ParseBytes(arg)
	*m = memorySize(n)
	return err
}
