package dashboard

import (
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// overview is the first page: what needs attention, and how much there is of everything.
type overview struct {
	heading

	Looked  bool // there has been a survey
	Empty   bool // there are no structures
	Notices []notice
	More    int // notices not shown
	Cards   []card
	Nodes   []survey.NodeView
}

// card is one kind of structure, in a few figures.
type card struct {
	Title string
	Path  string
	Big   string
	Unit  string
	Facts []fact
	Spark spark
	Spoke string // what the spark draws
}

// fact is a number with what it counts.
type fact struct {
	Text string
	Tone string
}

const maxNotices = 12

func (d *Dashboard) overview(*asked) (scene, error) {
	return func(v *survey.View) body {
		o := overview{
			heading: heading{Title: "Overview", Charts: []chart{d.chart(v, "throughput", ""), d.chart(v, "ops", ""), d.chart(v, "memory", "")}},
			Looked:  !v.At.IsZero(), Nodes: v.Server.Nodes,
		}
		o.Empty = o.Looked && len(v.Queues)+len(v.Icks)+len(v.Channels)+len(v.Hashes)+len(v.Keys)+len(v.Leases)+len(v.Steal.Jobs) == 0
		o.Notices = d.notices(v)
		if over := len(o.Notices) - maxNotices; over > 0 {
			o.Notices, o.More = o.Notices[:maxNotices], over
		}
		o.Cards = d.cards(v, o.Charts)
		if part := among(v, len(v.Queues)+len(v.Icks)+len(v.Channels), survey.Queue, survey.Ick, survey.Channel); part != "" {
			o.Charts[0].About += part
		}
		return o
	}, nil
}

// cards returns a card for each kind.
func (d *Dashboard) cards(v *survey.View, charts []chart) []card {
	throughput, memory := charts[0].drawn.Lines, charts[2].drawn.Lines
	queues, icks, server := d.queueCard(v), d.ickCard(v), d.serverCard(v.Server)
	queues.Spark, queues.Spoke = newSpark(throughput[0].Values), throughput[0].Name
	icks.Spark, icks.Spoke = newSpark(throughput[2].Values), throughput[2].Name
	server.Spark, server.Spoke = newSpark(memory[0].Values), "memory used"
	cards := []card{queues, icks, d.stealCard(v), d.leaseCard(v), d.namespaceCard(v)}
	if v.Fleet != nil {
		cards = append(cards, d.fleetCard(v.Fleet))
	}
	return append(cards, server)
}

func (d *Dashboard) serverCard(s survey.ServerView) card {
	c := card{Title: "Redis", Path: d.link("doctor"), Big: readable.Bytes(s.Memory()), Unit: "of memory",
		Facts: []fact{{Text: readable.Number(s.Ops()) + " commands/s"}}}
	var clients, evicted, limit int64
	limited := len(s.Nodes) > 0
	for _, n := range s.Nodes {
		clients, evicted = clients+n.Clients, evicted+n.Evicted
		if n.Role != "slave" {
			limit, limited = limit+n.MaxMemory, limited && n.MaxMemory > 0
		}
	}
	if limited {
		c.Unit = "of " + readable.Bytes(limit)
	}
	c.Facts = append(c.Facts, fact{Text: readable.Count(clients, "connection")})
	if evicted > 0 {
		c.Facts = append(c.Facts, fact{readable.Count(evicted, "key") + " evicted", "bad"})
	}
	return c
}

// among returns how many structures a number covers, if there are more.
func among(v *survey.View, looked int, kinds ...survey.Kind) string {
	for _, kind := range kinds {
		if v.LeftOut[kind] > 0 {
			return " in the first " + readable.Number(looked)
		}
	}
	return ""
}

func (d *Dashboard) queueCard(v *survey.View) card {
	var waiting, inFlight, delayed, dead int
	var oldest time.Duration
	for _, q := range v.Queues {
		waiting, inFlight, delayed, dead = waiting+q.Waiting, inFlight+q.InFlight, delayed+q.Delayed, dead+q.Dead
		oldest = max(oldest, q.OldestAge)
	}
	c := card{Title: "Queues", Path: d.link("queues"), Big: readable.Number(waiting), Unit: "waiting" + among(v, len(v.Queues), survey.Queue)}
	c.Facts = append(c.Facts, fact{Text: readable.Number(inFlight) + " in flight"})
	if delayed > 0 {
		c.Facts = append(c.Facts, fact{Text: readable.Number(delayed) + " delayed"})
	}
	if dead > 0 {
		c.Facts = append(c.Facts, fact{readable.Number(dead) + " dead", "warn"})
	}
	if oldest > 0 {
		c.Facts = append(c.Facts, fact{Text: "oldest " + ago(oldest)})
	}
	return c
}

func (d *Dashboard) ickCard(v *survey.View) card {
	var waiting, reserved, parked int
	var oldest time.Duration
	for _, k := range v.Icks {
		waiting, reserved, parked = waiting+k.Waiting.Size, reserved+k.Reserved.Size, parked+k.Parked
		oldest = max(oldest, k.OldestAge)
	}
	for _, c := range v.Channels {
		waiting, reserved, parked = waiting+c.Waiting, reserved+c.Reserved, parked+c.Parked
		oldest = max(oldest, c.OldestAge)
	}
	c := card{Title: "Dirty lists", Path: d.link("icks"), Big: readable.Number(waiting), Unit: "dirty" + among(v, len(v.Icks)+len(v.Channels), survey.Ick, survey.Channel)}
	c.Facts = append(c.Facts, fact{Text: readable.Number(reserved) + " reserved"})
	if parked > 0 {
		c.Facts = append(c.Facts, fact{readable.Number(parked) + " parked", "warn"})
	}
	if oldest > 0 {
		c.Facts = append(c.Facts, fact{Text: "oldest " + ago(oldest)})
	}
	return c
}

func (d *Dashboard) stealCard(v *survey.View) card {
	var worked, aborted float64
	for _, j := range v.Steal.Jobs {
		now := d.recent(v, survey.Steal, j.Name).now
		worked, aborted = worked+now["worked"], aborted+now["aborted"]
	}
	c := card{Title: "Upkeep", Path: d.link("stealing"), Big: readable.Number(v.Steal.Processes), Unit: "processes"}
	if v.Steal.Processes == 1 {
		c.Unit = "process"
	}
	c.Facts = append(c.Facts, fact{Text: readable.Count(len(v.Steal.Jobs), "job")}, fact{Text: rate(worked) + " worked/s"})
	if aborted > 0 {
		c.Facts = append(c.Facts, fact{Text: rate(aborted) + " aborted/s"})
	}
	return c
}

func (d *Dashboard) leaseCard(v *survey.View) card {
	held := 0
	for _, l := range v.Leases {
		if l.Held {
			held++
		}
	}
	c := card{Title: "Leases", Path: d.link("leases"), Big: readable.Number(held), Unit: "held" + among(v, len(v.Leases), survey.Lease)}
	if free := len(v.Leases) - held; free > 0 {
		c.Facts = append(c.Facts, fact{Text: readable.Number(free) + " free"})
	}
	return c
}

func (d *Dashboard) namespaceCard(v *survey.View) card {
	var hashes, keys, overdue int
	for _, h := range v.Hashes {
		hashes, overdue = hashes+h.Hashes, overdue+h.Overdue
	}
	for _, k := range v.Keys {
		keys, overdue = keys+k.Keys, overdue+k.Overdue
	}
	all := len(v.Hashes) + len(v.Keys)
	c := card{Title: "Namespaces", Path: d.link("namespaces"), Big: readable.Number(all + v.LeftOut[survey.Hashes] + v.LeftOut[survey.Keys]), Unit: "of hashes and values"}
	c.Facts = append(c.Facts, fact{Text: readable.Count(hashes, "hash") + " with deadlines"}, fact{Text: readable.Count(keys, "value")})
	if overdue > 0 {
		c.Facts = append(c.Facts, fact{Text: readable.Number(overdue) + " overdue"})
	}
	if part := among(v, all, survey.Hashes, survey.Keys); part != "" {
		c.Facts = append(c.Facts, fact{Text: part})
	}
	return c
}

func (d *Dashboard) fleetCard(f *survey.FleetView) card {
	c := card{Title: "Fleet", Path: d.link("fleet"), Big: string(f.State), Unit: "with all its members"}
	var tags int64
	down := 0
	for _, p := range f.Partitions {
		tags += p.Tags
		for _, m := range members(p) {
			if m.State != fleet.Up {
				down++
			}
		}
	}
	if f.State != fleet.Healthy {
		c.Unit = ""
	}
	c.Facts = append(c.Facts, fact{Text: readable.Count(len(f.Partitions), "partition")}, fact{Text: readable.Count(tags, "tag")})
	if down > 0 {
		c.Facts = append(c.Facts, fact{readable.Count(down, "member") + " not up", "bad"})
	}
	return c
}
