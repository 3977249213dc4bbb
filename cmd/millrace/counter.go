package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/connect"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/scatter"
)

// counterCommands is the noun counter.
type counterCommands struct {
	Add     counterAdd  `cmd:""`
	Get     counterGet  `cmd:""`
	Servers counterLeft `cmd:""`
}

func (*counterCommands) Help() string {
	return `A counter is scattered over several servers: an addition goes to one of them, and a reading asks all, so that no server has more to do the more of them there are. On each it is a plain Redis number under the counter's own name, which other languages can INCRBY and GET.

    add ──▶ one of the servers        get ──▶ all of them ──▶ the sum

--redis names the servers, with commas between them; or one, or a fleet, whose partitions they are then.

Examples:

    export MILLRACE_REDIS_URL=redis://10.0.0.1:6379,redis://10.0.0.2:6379
    millrace counter add impressions 3
    millrace counter get impressions`
}

// withScatter opens the servers for do.
func (a *app) withScatter(ctx context.Context, cfg scatter.Config, do func(s *scatter.Scatter) (any, table, error)) error {
	if open.Is(a.url()) {
		return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
			return useScatter(scatter.Clients(f.Partitions()...), cfg, do)
		})
	}
	if a.url() == "" {
		return a.noURL(dial.ErrURL.Errorf("this command needs to know which servers to work on").WithHint("Add --redis redis://HOST:PORT,redis://HOST2:PORT2 (or one of them, or a fleet: fleet://HOST:PORT, etcd://HOST:PORT/FLEET), or set MILLRACE_REDIS_URL."))
	}
	servers, err := counterServers(a.url())
	if err != nil {
		return err
	}
	return a.show(useScatter(servers, cfg, do))
}

// counterServers returns the servers that a list of URLs names.
func counterServers(urls string) ([]scatter.Server, error) {
	options, shown, err := connect.Options(urls)
	if err != nil {
		return nil, err
	}
	servers := make([]scatter.Server, len(options))
	for i, option := range options {
		servers[i] = scatter.Server{Name: shown[i], Option: option}
	}
	return servers, nil
}

func useScatter(servers []scatter.Server, cfg scatter.Config, do func(s *scatter.Scatter) (any, table, error)) (any, table, error) {
	s, err := scatter.New(servers, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	return do(s)
}

type counterAdd struct {
	ops.Counter
	ops.Addition
	More []jsontype.Text `arg:"" optional:"" help:"More pairs of counter and number: all go to one server in one call, all of them or none."`

	AllowEvictable bool `help:"Accept a server that may evict counters when its memory is full."`
}

func (*counterAdd) Help() string {
	return `It connects to one server. If the reply is lost the addition is repeated, and counts once. A server whose maxmemory-policy is not noeviction may lose what was counted, and is refused with the code "evictable".`
}

func (c *counterAdd) Run(ctx context.Context, a *app) error {
	counts, err := c.counts()
	if err != nil {
		return err
	}
	cfg := scatter.Config{AllowEvictable: c.AllowEvictable}
	if c.ShardKey == "" {
		cfg.Shard = scatter.RoundRobin()
	}
	return a.withScatter(ctx, cfg, func(s *scatter.Scatter) (doc any, line table, err error) {
		if len(counts) > 1 {
			var added ops.CountsAdded
			added, err = ops.AddToCounters.Do(ctx, s, ops.Counts{Counts: counts, ShardKey: c.ShardKey})
			doc, line = added, says("added to %s on %s", readable.Count(added.Counters, "counter"), added.Server)
		} else {
			var added ops.Added
			added, err = ops.AddToCounter.Do(ctx, ops.OneCounter{Of: s, Name: string(c.Name)}, c.Addition)
			doc, line = added, says("added %s on %s", readable.Number(added.Added), added.Server)
		}
		if errors.Is(err, millrace.ErrEvictable) {
			err = millrace.ErrEvictable.Errorf("%s", err).WithHint("Set maxmemory-policy to noeviction, or accept the risk with --allow-evictable.")
		}
		return doc, line, err
	})
}

// counts reads the pairs.
func (c *counterAdd) counts() (map[string]int64, error) {
	counts := map[string]int64{c.Name.String(): c.N}
	for pair := range slices.Chunk(c.More, 2) {
		if len(pair) == 1 {
			return nil, errUsage.Errorf("counters and numbers come in pairs, and %s has no number", pair[0])
		}
		n, err := strconv.ParseInt(string(pair[1]), 10, 64)
		if err != nil {
			return nil, errUsage.Errorf("%s of %s is not a whole number of 64 bits", pair[1], pair[0])
		}
		if _, twice := counts[pair[0].String()]; twice {
			return nil, errUsage.Errorf("the counter %s is given twice", pair[0])
		}
		counts[pair[0].String()] = n
	}
	return counts, nil
}

type counterGet struct {
	watchable
	ops.Counter
	More []jsontype.Text `arg:"" optional:"" help:"More counters, read with the first one in one call to each server."`
}

func (*counterGet) Help() string {
	return `The command prints that sum, and fails.`
}

func (c *counterGet) Run(ctx context.Context, a *app) error {
	return a.withScatter(ctx, scatter.Config{}, func(s *scatter.Scatter) (doc any, lines table, err error) {
		var of ops.Answers
		if len(c.More) > 0 {
			var sums ops.Sums
			sums, err = ops.GetCounters.Do(ctx, s, ops.CounterNames{Names: append([]string{string(c.Name)}, jsontype.Strings(c.More)...)})
			doc, of, lines = sums, sums.Answers, func(w io.Writer) {
				for _, row := range sums.Counters {
					fmt.Fprintf(w, "%s\t%s\n", row.Name, readable.Number(row.Value))
				}
			}
		} else {
			var sum ops.Counted
			sum, err = ops.GetCounter.Do(ctx, ops.OneCounter{Of: s, Name: string(c.Name)}, ops.CounterQuery{})
			doc, of, lines = sum, sum.Answers, says("%s on %s", readable.Number(sum.Value), readable.Count(sum.Servers, "server"))
		}
		if err != nil && (!errors.Is(err, millrace.ErrPartial) || of.Answered == 0) {
			return nil, nil, err
		}
		return doc, lines, besides{err}
	})
}

type counterLeft struct {
	Group jsontype.Text `placeholder:"G" help:"The group that programs have in scatter.Config. Defaults to main."`
}

func (*counterLeft) Help() string {
	return `Remove a server in three steps. First stop writing to it: remove it from the writers' lists, or set Drain in scatter.Server; its flushes then stop growing. Then wait until it is empty: its time buckets have ended. At last remove it from the readers' lists.

Values without an end stay. Only the programs that wrote them know which those are; add their numbers to another server.`
}

func (c *counterLeft) Run(ctx context.Context, a *app) error {
	return a.withScatter(ctx, scatter.Config{Group: string(c.Group)}, func(s *scatter.Scatter) (any, table, error) {
		doc, err := ops.ShowCounterServers.Do(ctx, s, ops.Nothing{})
		if len(doc.Servers) == 0 {
			return nil, nil, err
		}
		return doc, func(w io.Writer) { serversTable(w, doc) }, besides{err}
	})
}

func serversTable(w io.Writer, doc ops.CounterServers) {
	fmt.Fprint(w, "SERVER\tFLUSHES\tHAS\n")
	for _, row := range doc.Servers {
		has := "nothing any more"
		switch {
		case row.Flushes == 0:
			has = "nothing"
		case row.Forever:
			has = "values without an end"
		case !row.Empty:
			has = "values " + until(*row.Until)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.Server, readable.Number(row.Flushes), has)
	}
}
