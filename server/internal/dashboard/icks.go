package dashboard

import (
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// ickList is the page of all dirty lists.
type ickList struct {
	heading

	Looked  bool
	Rows    []ickRow
	LeftOut int
}

// ickRow is a dirty list or a channel.
type ickRow struct {
	Name      string
	Path      string
	Size      int // lists of a channel; 0 for a list
	Consumers int // of a channel
	Waiting   int
	Reserved  int
	Parked    int
	Oldest    time.Duration
	Folding   string
	Marked    float64 // a second
	Committed float64
	Spark     spark
}

func (d *Dashboard) icks(*asked) (scene, error) {
	return func(v *survey.View) body {
		l := ickList{heading: heading{Title: "Dirty lists"}, Looked: !v.Named.IsZero(), LeftOut: v.LeftOut[survey.Ick] + v.LeftOut[survey.Channel]}
		for _, c := range v.Channels {
			row := ickRow{Name: c.Name, Path: d.link("channels", c.Name), Size: c.Size, Consumers: c.Consumers,
				Waiting: c.Waiting, Reserved: c.Reserved, Parked: c.Parked, Oldest: c.OldestAge, Folding: folding(c.Counters)}
			l.Rows = append(l.Rows, d.lately(v, survey.Channel, row))
		}
		for _, k := range v.Icks {
			row := ickRow{Name: k.Name, Path: d.link("icks", k.Name),
				Waiting: k.Waiting.Size, Reserved: k.Reserved.Size, Parked: k.Parked, Oldest: k.OldestAge, Folding: folding(k.Counters)}
			l.Rows = append(l.Rows, d.lately(v, survey.Ick, row))
		}
		return l
	}, nil
}

// lately adds recent rates to a row.
func (d *Dashboard) lately(v *survey.View, kind survey.Kind, row ickRow) ickRow {
	r := d.recent(v, kind, row.Name)
	row.Marked, row.Committed, row.Spark = r.now["new"]+r.now["folded"], r.now["committed"], r.Spark
	return row
}

// folding is the share of marks on members that were dirty already: work that was saved.
func folding(c ick.Counters) string {
	if c.New+c.Folded == 0 {
		return "–"
	}
	return percent(float64(c.Folded) / float64(c.New+c.Folded))
}

// ickPage is the page of a dirty list.
type ickPage struct {
	heading

	Name     string
	How      presence
	Stats    ick.Stats
	Channel  string // empty if it belongs to none
	Folding  string
	Lately   map[string]float64
	Counters []readable.Counter
	Parked   *parkedList // nil in streams
}

// parkedList is members that failed.
type parkedList struct {
	Rows     []ick.Parked
	More     bool
	Wrong    string
	Hint     string
	Requests []request
}

// maxParked is how many parked members a page shows.
const maxParked = 100

func (d *Dashboard) ick(a *asked) (scene, error) {
	name, err := a.name()
	if err != nil {
		return nil, err
	}
	k, err := ick.New(d.cfg.Client, name, ick.Config{})
	if err != nil {
		return nil, err
	}
	of, err := follow(d.cfg.Survey.View(), followed[ick.Stats]{
		kind: survey.Ick, name: name, find: ickStats, title: func(s ick.Stats) string { return s.Name },
	}, func() (ick.Stats, error) { return k.Stats(a.Context()) })
	if err != nil {
		return nil, err
	}
	var parked *parkedList
	if !a.live {
		parked = d.parked(a, k)
	}
	return func(v *survey.View) body {
		stats, how := of.in(v)
		p := ickPage{
			heading: heading{Title: plain(name)},
			Name:    name, How: how, Stats: stats, Channel: channelOf(v, name), Folding: folding(stats.Counters),
			Lately: d.recent(v, survey.Ick, name).now, Counters: readable.Counters(stats.Counters), Parked: parked,
		}
		if p.Channel == "" { // else the channel's page has them
			p.Charts = []chart{d.chart(v, "ick", name), d.chart(v, "dirty", name)}
		}
		return p
	}, nil
}

// ickStats are all dirty lists of a View, including those of channels.
func ickStats(v *survey.View) []ick.Stats {
	all := slices.Clip(v.Icks)
	for _, c := range v.Channels {
		for _, k := range c.Icks {
			if k.Version != "" { // it has been used
				all = append(all, k)
			}
		}
	}
	return all
}

// channelOf returns the channel of a dirty list.
func channelOf(v *survey.View, name string) string {
	for _, c := range v.Channels {
		for _, k := range c.Icks {
			if k.Name == name {
				return c.Name
			}
		}
	}
	return ""
}

// parked reads the parked members.
func (d *Dashboard) parked(a *asked, k *ick.Ick) *parkedList {
	l := &parkedList{Requests: d.parkedRequests(k.Name())}
	for p, err := range k.Parked(a.Context()) {
		if err != nil {
			l.Wrong, l.Hint = sentence(err.Error()), millrace.Hint(err)
			break
		}
		if len(l.Rows) == maxParked {
			l.More = true
			break
		}
		l.Rows = append(l.Rows, p)
	}
	return l
}
