package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/readable"
)

// proof are the flags of commands that take new servers.
type proof struct {
	RestartTimeout time.Duration `placeholder:"DURATION" help:"How long a new server may take to come back: each is shut down once, to see that it comes back with its boot fence. Defaults to 30s."`
	SkipRestart    bool          `help:"Restart no new server, and trust that it has its boot fence."`
}

// Validate refuses a timeout that would mean SkipRestart; kong calls it.
func (p proof) Validate() error {
	if p.RestartTimeout < 0 {
		return errUsage.Errorf("--restart-timeout cannot be %s", p.RestartTimeout)
	}
	return nil
}

// config says how new servers are reached and proved, with an agent beside the command.
func (p proof) config(ctx context.Context, a *app, dir *directory.Directory, option rueidis.ClientOption) grow.Config {
	log := a.logger()
	cfg := grow.Config{Option: option, RestartTimeout: p.RestartTimeout, Progress: func(step string) { log.InfoContext(ctx, step) }, Agent: a.help(dir, option)}
	if p.SkipRestart {
		cfg.RestartTimeout = -1
	}
	return cfg
}

// newPartitions is the flag of both init and add.
type newPartitions struct {
	Partition []grow.Partition `sep:"none" xor:"partitions" placeholder:"SPEC" help:"A partition: its master and its replicas, as HOST:PORT[@NODE], with commas between them, and weight=N at the end for more than one share of the ring. May be repeated."`
	File      string           `xor:"partitions" placeholder:"FILE" help:"In place of --partition, a file with one SPEC a line, as fleet plan prints it; - for standard input."`
	proof
}

// read reads the file, if there is one.
func (n *newPartitions) read(ctx context.Context, a *app) error {
	switch {
	case n.File != "":
		name, text, err := a.readFile(ctx, n.File)
		if err == nil {
			n.Partition, err = grow.ParseFile(name, text)
		}
		return err
	case len(n.Partition) == 0:
		return errUsage.Errorf("no partitions are given").WithHint("Name a file with --file, or each partition with --partition: 10.0.0.1:7001@a,10.0.0.2:7001@b")
	}
	return nil
}

// grow makes a fleet, or a larger one, and prints it.
func (n *newPartitions) grow(ctx context.Context, a *app, change func(dir *directory.Directory, cfg grow.Config) (*directory.Map, error)) error {
	err := a.withDirectory(ctx, func(dir *directory.Directory, option rueidis.ClientOption) error {
		_, err := change(dir, n.config(ctx, a, dir, option))
		return ofGrowing(ctx, err)
	})
	if err != nil {
		return err
	}
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		doc, err := overview.Read(ctx, f, a.logger())
		return doc, func(w io.Writer) {
			fmt.Fprintf(w, "done: %s\n\n", readable.Count(len(doc.Partitions), "partition"))
			doc.Table(w)
		}, err
	})
}

// readFile returns the text of a file that a flag names, and the file's name for errors. The
// name - is that of standard input.
func (a *app) readFile(ctx context.Context, path string) (name, text string, err error) {
	if path == "-" {
		input, err := a.input(ctx)
		return "standard input", string(input), err
	}
	input, err := os.ReadFile(path)
	if err != nil {
		err = errUsage.Errorf("the file cannot be read: %s", err).WithHint("Name a file that can be read, or - for standard input.")
	}
	return path, string(input), err
}

// ofGrowing adds the next step to the error of a command that a signal ended and that may be half done.
func ofGrowing(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, membership.ErrBegun) {
		return &millrace.Error{Code: "interrupted", Message: "interrupted", Hint: "Repeat the command, for the same servers: it skips what is done."}
	}
	return err
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

With @NODE, two members of a partition on one machine are refused; without it the command cannot know. A file may have # for comments.

Examples:

    millrace fleet init --redis fleet://10.0.0.1:7000 --file fleet.txt
    millrace fleet init --redis etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/shop --partition 10.0.0.1:7001@a,10.0.0.2:7001@b`
}

func (c *fleetInit) Run(ctx context.Context, a *app) error {
	if err := c.read(ctx, a); err != nil {
		return err
	}
	for i, p := range c.Partition {
		if need := c.Confirmed; need > 1 && need > len(p.Replicas) { // writes that wait for so many would fail
			return errUsage.Errorf("confirmed cannot be %d: partition %d has %s", need, i, readable.Count(len(p.Replicas), "replica")).
				WithHint("Name so many replicas of each partition. The default, 1, is for all fleets.")
		}
	}
	return c.grow(ctx, a, func(dir *directory.Directory, cfg grow.Config) (*directory.Map, error) {
		cfg.Settings = directory.Settings{
			ViewTTL: cmp.Or(c.ViewTTL, dir.ViewTTL), ReplyTimeout: c.ReplyTimeout, PlacementTTL: c.PlacementTTL,
			MaxTags: c.MaxTags, MaxFill: c.MaxFill, Confirmed: c.Confirmed, MaxAge: c.MaxAge,
		}
		if cfg.Settings.ViewTTL < dir.ViewTTL {
			return nil, errUsage.Errorf("view-life cannot be %s with a directory in etcd, which confirms nothing while it elects a leader: the fleet would be read-only then", c.ViewTTL).
				WithHint("Leave it out: the default is 3s, three election timeouts of etcd.")
		}
		return grow.Init(ctx, dir, c.Partition, cfg)
	})
}

type fleetAdd struct {
	newPartitions
}

func (*fleetAdd) Help() string {
	return `The servers are shut down once, as by init, and must come back with their boot fence. No data moves: a new partition takes over a part of the tags that are yet to come. It takes a few seconds: first all clients look for tags there, too, and only then are new ones placed there. A command that was cut off is finished by the same command again.

Add as many partitions as there are, and each gets half of what one had.

Examples:

    millrace fleet add --partition 10.0.0.5:7001@e,10.0.0.6:7001@f,weight=2`
}

func (c *fleetAdd) Run(ctx context.Context, a *app) error {
	if err := c.read(ctx, a); err != nil {
		return err
	}
	return c.grow(ctx, a, func(dir *directory.Directory, cfg grow.Config) (*directory.Map, error) {
		return grow.Add(ctx, dir, c.Partition, cfg)
	})
}
