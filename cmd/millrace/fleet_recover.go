package main

import (
	"cmp"
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/recovery"
)

type fleetRecover struct {
	Member  []string `placeholder:"HOST:PORT" help:"A member that may hold a copy of the map. One is enough, unless servers joined after the newest copy. May be repeated."`
	Archive string   `placeholder:"DIR" help:"The folder of the snapshots, which has a copy, too."`
	From    string   `placeholder:"COPY" help:"The copy to take in place of the newest: HOST:PORT of a member, a file of the archive, or the word directory."`
	consent
}

func (*fleetRecover) Help() string {
	return `Use it when the directory has lost its data, or to change the directory: --redis names the new one, which is empty. Agents keep copies of the fleet's map on all members and in the archive. This command collects them, shows what it found and what it cannot know, asks, and stores the newest map. Then all partitions elect a master, which takes a few seconds, and nothing that a replica confirmed is lost.

The old directory must be gone for good: clients and agents that still reach it would go on by the old map. If the new one has the old one's address, clients and agents go on by themselves; else start them again with the new address.

A directory that was restored from a backup needs no command: agents put the newest map into it. If they say that they change nothing, since two maps have different histories, --from decides, and replaces the directory's map.

A command that was cut off is finished by the same command again.

Examples:

    millrace fleet recover --redis fleet://10.0.0.9:7000 --member 10.0.0.1:7001 --dry-run
    millrace fleet recover --redis fleet://10.0.0.9:7000 --archive /mnt/backup/redis --from 10.0.0.1:7001`
}

// recoveredDoc is the state that was found, and the fleet that was made of it.
type recoveredDoc struct {
	Found  recovery.Report `json:"found"`
	Stored bool            `json:"stored"`          // by this command; else it was there, or --dry-run
	Fleet  *overview.Fleet `json:"fleet,omitempty"` // absent with --dry-run
}

func (c *fleetRecover) Run(ctx context.Context, a *app) error {
	if len(c.Member) == 0 && c.Archive == "" {
		return errUsage.Errorf("name a member with --member, or the folder of the snapshots with --archive")
	}
	for _, addr := range c.Member {
		if err := checkAddr("--member", addr); err != nil {
			return err
		}
	}
	if err := (archiveFlags{Archive: c.Archive}).check(true, ""); err != nil {
		return err
	}
	var doc recoveredDoc
	err := a.withDirectory(ctx, func(dir *directory.Directory, option rueidis.ClientOption) error {
		servers := failover.NewRedis(option)
		defer servers.Close()
		found, err := recovery.Find(ctx, recovery.Config{Servers: servers, Directory: dir, Members: c.Member, Archive: c.Archive, From: c.From})
		if err != nil {
			return err
		}
		doc.Found = found.Report()
		if c.DryRun {
			return a.print(doc, doc.Found.Table)
		}
		if err := a.agree(ctx, c.Yes || !found.Behind, doc, doc.Found.Table, found.Question()); err != nil {
			return err
		}
		doc.Stored = found.Behind
		return found.Store(ctx, "recover")
	})
	if err != nil || c.DryRun {
		return err
	}
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		log := a.logger()
		end := beside.Agent(directory.Of(f.Client()), directory.OptionOf(f.Client()), agent.Config{Logger: log})(ctx)
		unsettled := overview.Settle(ctx, f)
		end()
		now, err := overview.Read(ctx, f, log)
		doc.Fleet = &now
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return nil, nil, err
		}
		return doc, now.Table, besides{unsettled}
	})
}
