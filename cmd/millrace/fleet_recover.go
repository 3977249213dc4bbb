package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
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
    millrace fleet recover --redis fleet://10.0.0.9:7000 --member 10.0.0.1:7001 --archive /mnt/backup/redis
    millrace fleet recover --redis etcd://10.0.0.7:2379,10.0.0.8:2379/main --member 10.0.0.1:7001
    millrace fleet recover --redis fleet://10.0.0.9:7000 --member 10.0.0.1:7001 --from 10.0.0.1:7001`
}

// recoveredDoc is what was found, and the fleet that was made of it.
type recoveredDoc struct {
	Found  recovery.Report `json:"found"`
	Stored bool            `json:"stored"`          // by this command; else it was there, or --dry-run
	Fleet  *overview.Fleet `json:"fleet,omitempty"` // absent with --dry-run
}

// errWithoutMaster means that the map was stored, and that some partitions elect nobody yet.
var errWithoutMaster = &millrace.Error{
	Code: "no_master",
	Hint: "Bring their members back with their data; millrace fleet show says more. Agents go on by themselves: start them with millrace fleet agent.",
}

func (c *fleetRecover) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return a.withDirectory(ctx, func(dir *directory.Directory, option rueidis.ClientOption) error {
		servers := failover.NewRedis(option)
		defer servers.Close()
		found, err := recovery.Find(ctx, recovery.Config{Servers: servers, Directory: dir, Members: c.Member, Archive: c.Archive, From: c.From})
		if err != nil {
			return inOneLine(err)
		}
		doc := recoveredDoc{Found: found.Report()}
		if c.DryRun {
			return a.print(doc, doc.Found.Table)
		}
		if err := a.preview(doc, doc.Found.Table); err != nil {
			return err
		}
		if found.Behind {
			question := "The old directory must be gone for good: clients and agents that reach it would go on by the old map. Store the new map?"
			if found.Present != nil {
				question = fmt.Sprintf("The directory has a map of epoch %d of this fleet. Replace it?", found.Present.Epoch)
			}
			if err := a.ask(ctx, c.Yes, question); err != nil {
				return err
			}
			if err := found.Store(ctx, "recover"); err != nil {
				return err
			}
			doc.Stored = true
		}
		return a.show(c.serve(ctx, a, dir, option, doc))
	})
}

func (c *fleetRecover) check() error {
	if len(c.Member) == 0 && c.Archive == "" {
		return errUsage.Errorf("name a member with --member, or the folder of the snapshots with --archive")
	}
	for _, addr := range c.Member {
		if err := checkAddr("--member", addr); err != nil {
			return err
		}
	}
	return checkArchive(c.Archive)
}

// serve runs an agent until all partitions are healthy, or no more of them becomes it, and
// shows the fleet.
func (c *fleetRecover) serve(ctx context.Context, a *app, dir *directory.Directory, option rueidis.ClientOption, doc recoveredDoc) (any, table, error) {
	log := a.logger()
	f, err := fleet.Open(ctx, dir, fleet.Config{Option: option, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if viewTTL := directory.MapOf(f.Client()).Settings.Effective().ViewTTL; isEtcd(a.url()) && viewTTL < etcdViewTTL {
		log.WarnContext(ctx, "etcd confirms nothing while it elects a leader, one to two seconds with its default election timeout: with this view-life the fleet is read-only then",
			"view-life", viewTTL.String(), "recommended", etcdViewTTL.String())
	}
	end := beside.Agent(dir, option, agent.Config{Logger: log})(ctx)
	without := overview.Settle(ctx, f)
	end()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	now, err := a.readFleet(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	doc.Fleet = &now
	if len(without) > 0 {
		return doc, now.Table, besides{errWithoutMaster.Errorf("without a master: partition %s", strings.Join(without, ", "))}
	}
	return doc, now.Table, nil
}
