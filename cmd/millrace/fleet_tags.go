package main

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/readable"
)

type fleetLocate struct {
	Tag jsontype.Text `arg:"" help:"A tag, or any key that has it: user:7 and {user:7}:name are the same."`
}

func (*fleetLocate) Help() string {
	return `It asks the partitions that may have the tag, as a client does, and places nothing.

Examples:

    millrace fleet locate '{user:7}:name'`
}

func (c *fleetLocate) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		tag := fleet.Tag(string(c.Tag))
		l, err := f.Locate(ctx, tag)
		if err != nil {
			return nil, nil, err
		}
		doc := overview.NewLocation(l, directory.MapOf(f.Client()).Partitions)
		return doc, doc.Table, nil
	})
}

type fleetForget struct {
	Tags []jsontype.Text `arg:"" name:"tag" help:"Tags, or keys that have them."`
}

func (*fleetForget) Help() string {
	return `A tag keeps its place when its data is gone. Forgotten, it gets one where it belongs by then, when it is used again. It takes a little longer than the fleet's placement life, 10 seconds, and looks once through all keys of the partitions concerned: name all tags at once. Tags that have keys, or are written for meanwhile, stay where they are, and the command fails with the code "in_use".

Examples:

    millrace fleet forget user:7 user:8`
}

func (c *fleetForget) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		tags := make([]string, len(c.Tags))
		for i, tag := range c.Tags {
			tags[i] = fleet.Tag(string(tag))
		}
		slices.Sort(tags)
		tags = slices.Compact(tags)
		if _, err := f.Forget(ctx, tags...); err != nil {
			return nil, nil, err
		}
		return map[string]int{"forgotten": len(tags)}, says("forgotten: %s", readable.Count(len(tags), "tag")), nil
	})
}

type fleetRebalance struct {
	Tags   []jsontype.Text `arg:"" optional:"" name:"tag" help:"Tags to move to the one partition that --to names."`
	From   *int            `placeholder:"N" help:"Move tags away from this partition."`
	To     []int           `placeholder:"N" help:"The partitions that take them. Defaults to all others that take new tags: each tag goes to the one to which it belongs, or to the one with the most room."`
	Share  float64         `placeholder:"SHARE" help:"The part of the tags of --from to move, up to 1. Defaults to all."`
	Retire bool            `help:"Have --from take no new tags any more, for good."`
	AtOnce int             `placeholder:"N" help:"How many tags to move together: more are faster, and fewer have their writers wait less. Defaults to 100."`
	Rate   byteCount       `placeholder:"SIZE" help:"How much to copy in a second at most, such as 20mb. Defaults to no limit."`
}

// byteCount is a number of bytes, such as 20mb for 20,000,000 and 20MiB for 20,971,520.
type byteCount uint64

// UnmarshalText reads a number and a unit.
func (b *byteCount) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	*b = byteCount(min(n, math.MaxInt64))
	return err
}

func (*fleetRebalance) Help() string {
	return `It moves what tags have to other partitions, while they are in use: reads continue, and writers of a tag wait for about a second, which is reported. You rarely need it: new partitions take their share of new tags. Use it for a tag that has become large, for a partition that is fuller than others, or for one to retire: that one stays on the ring, small and empty, and knows where its tags are.

Progress goes to standard error. The tags that are under way when a command is interrupted or dies, up to 10,000, are moved by the agents; the same command again goes on with the others, and needs no agents. What has not arrived can still be moved elsewhere.

Examples:

    millrace fleet rebalance user:7 user:8 --to 3
    millrace fleet rebalance --from 0 --share 0.25 --to 4,5 --rate 20mb`
}

func (c *fleetRebalance) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	named := c.To
	if c.From != nil {
		named = append(slices.Clone(c.To), *c.From)
	}
	if c.Retire { // before it is opened: its client knows the closed partition from the beginning
		err := a.withMap(ctx, func(f *fleetAt) (any, table, error) { return nil, nil, rebalance.Close(ctx, f.dir, *c.From) }, named...)
		if err != nil {
			return err
		}
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		report, failed := c.move(ctx, f, a.logger())
		if failed != nil && report.Tags == 0 && len(report.Kept) == 0 {
			return nil, nil, failed
		}
		doc := overview.NewMoved(report)
		return doc, doc.Table, besides{failed}
	}, named...)
}

// check refuses flags that contradict each other.
func (c *fleetRebalance) check() error {
	switch {
	case len(c.Tags) > 0 && c.From != nil:
		return errUsage.Errorf("name tags or --from, not both")
	case len(c.Tags) > 0 && len(c.To) != 1:
		return errUsage.Errorf("name one partition with --to")
	case len(c.Tags) == 0 && c.From == nil:
		return errUsage.Errorf("name tags and where to move them with --to, or a partition to move tags away from with --from")
	case c.From == nil && (c.Share != 0 || c.Retire):
		return errUsage.Errorf("--share and --retire are for the partition that --from names")
	case c.From != nil && slices.Contains(c.To, *c.From):
		return errUsage.Errorf("partition %d cannot take the tags that leave it", *c.From)
	case c.Share < 0 || c.Share > 1:
		return errUsage.Errorf("--share is above 0 and at most 1")
	case c.AtOnce < 0:
		return errUsage.Errorf("--at-once is at least 1")
	}
	return nil
}

// move moves tags, and logs its progress every second.
func (c *fleetRebalance) move(ctx context.Context, f *fleetAt, log *slog.Logger) (rebalance.Report, error) {
	var logged time.Time
	mover, err := rebalance.New(f.Fleet, rebalance.Config{
		Batch: c.AtOnce, Rate: int64(c.Rate), Moves: f.dir, Logger: log,
		Progress: func(p rebalance.Progress) {
			if p.Tags < p.Of && time.Since(logged) < time.Second {
				return
			}
			logged = time.Now()
			log.InfoContext(ctx, "moving", "tags", p.Tags, "of", p.Of, "keys", p.Keys, "bytes", p.Bytes, "longest_pause_ms", p.LongestPause.Milliseconds())
		},
	})
	if err != nil {
		return rebalance.Report{}, err
	}
	log.InfoContext(ctx, "waiting until no client remembers where the tags are", "for", directory.MapOf(f.Client()).Settings.Effective().PlacementTTL.String())
	if c.From == nil {
		return mover.Move(ctx, c.To[0], jsontype.Strings(c.Tags)...)
	}
	return mover.Drain(ctx, *c.From, rebalance.DrainConfig{Share: c.Share, To: c.To})
}
