package dashboard

import (
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// overview is the first page: the problems, and how many structures of each kind there are.
type overview struct {
	heading

	Surveyed bool // there has been a survey
	Empty    bool // there are no structures
	Notices  []notice
	More     int // notices not shown
	Cards    []card
	Nodes    []survey.NodeView
}

// card is one kind of structure, in a few figures.
type card struct {
	Title string
	Path  string
	Big   string
	Unit  string
	Facts []fact
	Spark spark
	About string // the series that the spark draws
}

// fact is a number and its label.
type fact struct {
	Text     string
	Severity finding.Severity
}

const maxNotices = 12

func (d *Dashboard) overview(*asked) (scene, error) {
	return func(v *survey.View) body {
		o := overview{
			heading:  heading{Title: "Overview", Charts: []chart{d.chart(v, "throughput", ""), d.chart(v, "ops", ""), d.chart(v, "memory", "")}},
			Surveyed: !v.At.IsZero(), Nodes: v.Server.Nodes,
		}
		o.Empty = o.Surveyed && len(v.Queues)+len(v.Icks)+len(v.Channels)+len(v.Hashes)+len(v.Keys)+len(v.Leases)+len(v.Steal.Jobs) == 0
		o.Notices = d.notices(v)
		if over := len(o.Notices) - maxNotices; over > 0 {
			o.Notices, o.More = o.Notices[:maxNotices], over
		}
		o.Cards = d.cards(v, o.Charts[0].drawn.Lines, o.Charts[2].drawn.Lines)
		o.Charts[0].About += among(v, len(v.Queues)+len(v.Icks)+len(v.Channels), survey.Queue, survey.Ick, survey.Channel)
		return o
	}, nil
}

// sums are numbers of all structures of a kind together.
type sums struct {
	waiting, inFlight, delayed, dead int
	dirty, reserved, parked          int
	oldestMessage, oldestMark        time.Duration
	hashes, values, overdue          int // of namespaces
	schedules, overdueSchedules      int
	held                             int // leases
}

func newSums(v *survey.View) (s sums) {
	for _, q := range v.Queues {
		s.waiting, s.inFlight, s.delayed, s.dead = s.waiting+q.Waiting, s.inFlight+q.InFlight, s.delayed+q.Delayed, s.dead+q.Dead
		s.oldestMessage = max(s.oldestMessage, q.OldestAge)
		s.schedules, s.overdueSchedules = s.schedules+q.Schedules, s.overdueSchedules+q.OverdueSchedules
	}
	for _, k := range v.Icks {
		s.dirty, s.reserved, s.parked = s.dirty+k.Waiting.Size, s.reserved+k.Reserved.Size, s.parked+k.Parked
		s.oldestMark = max(s.oldestMark, k.OldestAge)
	}
	for _, c := range v.Channels {
		s.dirty, s.reserved, s.parked = s.dirty+c.Waiting, s.reserved+c.Reserved, s.parked+c.Parked
		s.oldestMark = max(s.oldestMark, c.OldestAge)
	}
	for _, h := range v.Hashes {
		s.hashes, s.overdue = s.hashes+h.Hashes, s.overdue+h.Overdue
	}
	for _, k := range v.Keys {
		s.values, s.overdue = s.values+k.Keys, s.overdue+k.Overdue
	}
	for _, l := range v.Leases {
		if l.Held {
			s.held++
		}
	}
	return s
}

// cards returns a card for each kind of which something is there, for queues and for the servers.
func (d *Dashboard) cards(v *survey.View, throughput, memory []drawingLine) []card {
	s := newSums(v)
	queues := newCard("Queues", d.link("queues"), readable.Number(s.waiting), "waiting"+among(v, len(v.Queues), survey.Queue),
		fact{Text: readable.Number(s.inFlight) + " in flight"}, positive(s.delayed, "delayed", finding.OK), positive(s.dead, "dead", finding.Warning), oldest(s.oldestMessage))
	queues.Spark, queues.About = newSpark(throughput[0].Values), throughput[0].Name
	lists := newCard("Dirty lists", d.link("icks"), readable.Number(s.dirty), "dirty"+among(v, len(v.Icks)+len(v.Channels), survey.Ick, survey.Channel),
		fact{Text: readable.Number(s.reserved) + " reserved"}, positive(s.parked, "parked", finding.Warning), oldest(s.oldestMark))
	lists.Spark, lists.About = newSpark(throughput[2].Values), throughput[2].Name
	leases := newCard("Leases", d.link("leases"), readable.Number(s.held), "held"+among(v, len(v.Leases), survey.Lease),
		positive(len(v.Leases)-s.held, "free", finding.OK))
	spaces := len(v.Hashes) + len(v.Keys)
	namespaces := newCard("Namespaces", d.link("namespaces"), readable.Number(spaces+v.LeftOut[survey.Hashes]+v.LeftOut[survey.Keys]), "of hashes and values",
		fact{Text: readable.Count(s.hashes, "hash") + " with deadlines"}, fact{Text: readable.Count(s.values, "value")},
		positive(s.overdue, "overdue", finding.OK), fact{Text: among(v, spaces, survey.Hashes, survey.Keys)})
	cards := []card{queues}
	some := func(known int, kinds ...survey.Kind) bool {
		for _, kind := range kinds {
			known += v.LeftOut[kind]
		}
		return known > 0
	}
	if some(len(v.Icks)+len(v.Channels), survey.Ick, survey.Channel) {
		cards = append(cards, lists)
	}
	if v.Steal.Processes+len(v.Steal.Jobs) > 0 {
		cards = append(cards, d.stealCard(v))
	}
	if some(len(v.Leases), survey.Lease) {
		cards = append(cards, leases)
	}
	if some(spaces, survey.Hashes, survey.Keys) {
		cards = append(cards, namespaces)
	}
	if v.Fleet != nil {
		cards = append(cards, d.fleetCard(v.Fleet))
	}
	server := d.serverCard(v.Server)
	server.Spark, server.About = newSpark(memory[0].Values), "memory used"
	return append(cards, server)
}

// newCard returns a card without empty facts.
func newCard(title, path, big, unit string, facts ...fact) card {
	c := card{Title: title, Path: path, Big: big, Unit: unit}
	for _, f := range facts {
		if f.Text != "" {
			c.Facts = append(c.Facts, f)
		}
	}
	return c
}

// positive is a fact if n is positive, else no fact.
func positive[N int | int64](n N, what string, severity finding.Severity) fact {
	if n <= 0 {
		return fact{}
	}
	return fact{readable.Number(n) + " " + what, severity}
}

func oldest(age time.Duration) fact {
	if age <= 0 {
		return fact{}
	}
	return fact{Text: "oldest " + ago(age)}
}

// among returns how many structures a number covers, if there are more.
func among(v *survey.View, surveyed int, kinds ...survey.Kind) string {
	for _, kind := range kinds {
		if v.LeftOut[kind] > 0 {
			return " in the first " + readable.Number(surveyed)
		}
	}
	return ""
}

func (d *Dashboard) stealCard(v *survey.View) card {
	var worked, aborted float64
	for _, j := range v.Steal.Jobs {
		now := d.recent(v, survey.Steal, j.Name).now
		worked, aborted = worked+now["worked"], aborted+now["aborted"]
	}
	unit, abortedFact := "processes", fact{}
	if v.Steal.Processes == 1 {
		unit = "process"
	}
	if aborted > 0 {
		abortedFact.Text = rate(aborted) + " aborted/s"
	}
	return newCard("Upkeep", d.link("stealing"), readable.Number(v.Steal.Processes), unit,
		fact{Text: readable.Count(len(v.Steal.Jobs), "job")}, fact{Text: rate(worked) + " worked/s"}, abortedFact)
}

func (d *Dashboard) serverCard(s survey.ServerView) card {
	var clients, evicted, limit int64
	limited := len(s.Nodes) > 0
	for _, n := range s.Nodes {
		clients, evicted = clients+n.Clients, evicted+n.Evicted
		if n.Role != "slave" {
			limit, limited = limit+n.MaxMemory, limited && n.MaxMemory > 0
		}
	}
	unit := "of memory"
	if limited {
		unit = "of " + readable.Bytes(limit)
	}
	return newCard("Redis", d.link("doctor"), readable.Bytes(s.Memory()), unit, fact{Text: readable.Number(s.Ops()) + " commands/s"},
		fact{Text: readable.Count(clients, "connection")}, positive(evicted, "keys evicted", finding.Critical))
}

func (d *Dashboard) fleetCard(f *survey.FleetView) card {
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
	unit := ""
	if f.State == fleet.Healthy {
		unit = "with all its members"
	}
	return newCard("Fleet", d.link("fleet"), string(f.State), unit,
		fact{Text: readable.Count(len(f.Partitions), "partition")}, fact{Text: readable.Count(tags, "tag")}, positive(down, "members not up", finding.Critical))
}
