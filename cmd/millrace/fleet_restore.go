package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/jsontype"
)

type fleetRestore struct {
	Partition int    `arg:"" help:"The number of a partition."`
	From      string `required:"" xor:"what" placeholder:"MEMBER|FILE" help:"With which data it goes on: that of a member, HOST:PORT, or a snapshot, which is loaded into a member."`
	Ick       string `placeholder:"NAME" help:"Have agents add its tags to this Ick: the setting restored-ick. Defaults to what that is."`
	Doubtful  bool   `required:"" xor:"what" help:"Only list the tags whose data is of the time of the last restore, or missing: all that the partition has, or has by another one's record."`
	Yes       bool   `help:"Do not ask."`
}

func (*fleetRestore) Help() string {
	return `Use it when a partition waits for a person (fleet show), or to go back to a snapshot. It shows which data there is and how old it is, asks, has agents put that in service, and lists the tags that are doubtful. Without an agent it does so itself. All that the partition had since is lost.

A file is sent to the member whose own data is missed least, as by a master: no server is stopped, and the other members keep what they have until the new master leads. Members must reach this machine, at any port. An interrupted command gives up if the file is not loaded; after a crash the same command goes on.

Examples:

    millrace fleet restore 3 --from 10.0.0.1:7003
    millrace fleet restore 3 --from /mnt/backup/redis/20261127T030000.000Z-main-3.rdb --ick rebuild`
}

func (c *fleetRestore) Run(ctx context.Context, a *app) error {
	isFile := c.From != "" && checkAddr("--from", c.From) != nil
	if _, err := os.Stat(c.From); isFile && err != nil {
		return errUsage.Errorf("--from %s: there is no such file, and a member is named by its HOST:PORT", c.From)
	}
	if c.Doubtful && c.Ick != "" {
		return errUsage.Errorf("--doubtful only lists tags: --ick is for a restore")
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		log := a.logger()
		if c.Doubtful {
			return nil, nil, c.doubtful(ctx, f, log, a.printTags)
		}
		data := failover.Look(ctx, f.option, f.dir, f.m, c.Partition)
		doc, choice, err := overview.RestoreMember(c.Partition, c.From, data)
		if isFile {
			doc, choice, err = overview.RestoreFile(ctx, f.option, f.m.Fleet, c.Partition, c.From, data, log)
		}
		if err != nil {
			return nil, nil, err
		}
		if !a.json {
			fmt.Fprintf(a.stderr, "%s\n", strings.Join(overview.AgeLines(doc.Members), "\n"))
		}
		if err := a.ask(ctx, c.Yes, doc.Question()); err != nil {
			return nil, nil, err
		}
		began := time.Now()
		if err := c.restore(ctx, a, f, choice); err != nil {
			return nil, nil, err
		}
		doc.Took = time.Since(began).Milliseconds()
		log.InfoContext(ctx, "the partition has its master, looking for doubtful tags")
		// A client that knows that master from the beginning.
		return nil, nil, a.withMap(ctx, func(f *fleetAt) (any, table, error) {
			doc.Ick = f.m.Settings.RestoredIck
			if err := c.doubtful(ctx, f, log, doc.Add); err != nil {
				return &doc, doc.Table, besides{fmt.Errorf("not all doubtful tags are known: %w", err)}
			}
			return &doc, doc.Table, nil
		})
	}, c.Partition)
}

// doubtful calls a function with the doubtful tags, some at a time.
func (c *fleetRestore) doubtful(ctx context.Context, f *fleetAt, log *slog.Logger, some func([]string) error) error {
	mover, err := rebalance.New(f.Fleet, rebalance.Config{Moves: f.dir, Logger: log})
	if err != nil {
		return err
	}
	return mover.Doubtful(ctx, c.Partition, some)
}

// restore names the Ick, stores the choice in the map and waits until it is obeyed.
func (c *fleetRestore) restore(ctx context.Context, a *app, f *fleetAt, choice failover.Choice) error {
	if c.Ick != "" {
		if _, err := directory.Edit(ctx, f.dir, func(next *directory.Map) (bool, error) {
			next.Settings.RestoredIck = c.Ick
			return true, next.Settings.Check()
		}); err != nil {
			return err
		}
	}
	servers := failover.NewRedis(f.option)
	defer servers.Close()
	return failover.Restore(ctx, f.dir, servers, c.Partition, choice, a.logger(), a.help(f.dir, f.option))
}

// printTags prints tags, each on a line, as text or JSON.
func (a *app) printTags(tags []string) error {
	for _, tag := range tags {
		doc := struct {
			Tag jsontype.Text `json:"tag"`
		}{jsontype.Text(tag)}
		if err := a.print(doc, func(w io.Writer) { fmt.Fprintln(w, doc.Tag) }); err != nil {
			return err
		}
	}
	return nil
}
