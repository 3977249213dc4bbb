package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
)

type fleetRestore struct {
	Partition int    `arg:"" help:"The number of a partition."`
	From      string `required:"" placeholder:"HOST:PORT" help:"The member whose data the partition goes on with."`
	Yes       bool   `help:"Do not ask."`
}

func (*fleetRestore) Help() string {
	return `Use it when a partition waits for a person (fleet show): the newest data that answers is too far behind what was there, or too few members answer to be sure that nothing confirmed is missing. It shows which data there is and how old it is, asks, and stores the choice in the map. Agents put that member in service, and the others copy it; without an agent this command does that. All that the member lacks is lost. The partition's tags are marked if the setting restored-ick is set.

To go back to a snapshot, follow "Restoring a partition" in docs/FLEET.md.

Examples:

    millrace fleet restore 3 --from 10.0.0.1:7003
    millrace fleet restore 3 --from 10.0.0.1:7003 --yes`
}

// restoreDoc is what a partition went on with.
type restoreDoc struct {
	Partition int            `json:"partition"`
	From      string         `json:"from"`
	Members   []failover.Age `json:"members"` // what there was
	Took      int64          `json:"took_ms"`
}

// errNoData means that a member cannot be restored from.
var errNoData = &millrace.Error{Code: "no_data", Hint: "Start it, at its address and with its boot fence, and look at millrace fleet show."}

func (c *fleetRestore) Run(ctx context.Context, a *app) error {
	if err := checkAddr("--from", c.From); err != nil {
		return err
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		doc := restoreDoc{Partition: c.Partition, From: c.From, Members: failover.Ages(ctx, f.option, f.dir, f.m.Fleet, f.m.Partitions[c.Partition])}
		at := slices.IndexFunc(doc.Members, func(age failover.Age) bool { return age.Addr == c.From })
		switch {
		case at < 0:
			return nil, nil, errNoData.Errorf("%s is not a member of partition %d", c.From, c.Partition)
		case !doc.Members[at].Known:
			return nil, nil, errNoData.Errorf("%s %s", c.From, doc.Members[at].Text)
		}
		if !a.json {
			fmt.Fprintf(a.stderr, "%s\n", strings.Join(overview.AgeLines(doc.Members), "\n"))
		}
		question := fmt.Sprintf("Go on in partition %d with the data of %s, and lose all that it lacks?", c.Partition, c.From)
		if err := a.ask(ctx, c.Yes, question); err != nil {
			return nil, nil, err
		}
		servers := failover.NewRedis(f.option)
		defer servers.Close()
		began, log := time.Now(), a.logger()
		if err := failover.Restore(ctx, f.dir, servers, c.Partition, c.From, log, a.help(f.dir, f.option)); err != nil {
			return nil, nil, stranded(ctx, f.dir, c.Partition, err)
		}
		doc.Took = time.Since(began).Milliseconds()
		return doc, says("partition %d goes on with the data of %s: it was %s", c.Partition, c.From, doc.Members[at].Text), nil
	}, c.Partition)
}
