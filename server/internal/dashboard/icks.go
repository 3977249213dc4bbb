package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

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
	Counters  ick.Counters
	Folding   string  // the share of marks on members that were dirty already: saved work
	Marked    float64 // a second
	Committed float64
	Spark     spark
}

func (d *Dashboard) newIckRow(v *survey.View, s ick.Stats) ickRow {
	return d.lately(v, survey.Ick, ickRow{
		Name: s.Name, Path: d.link("icks", s.Name),
		Waiting: s.Waiting.Size, Reserved: s.Reserved.Size, Parked: s.Parked, Oldest: s.OldestAge, Counters: s.Counters,
	})
}

func (d *Dashboard) newChannelRow(v *survey.View, s ick.ChannelStats) ickRow {
	return d.lately(v, survey.Channel, ickRow{
		Name: s.Name, Path: d.link("channels", s.Name), Size: s.Size, Consumers: s.Consumers,
		Waiting: s.Waiting, Reserved: s.Reserved, Parked: s.Parked, Oldest: s.OldestAge, Counters: s.Counters,
	})
}

// lately adds rates to a row.
func (d *Dashboard) lately(v *survey.View, kind survey.Kind, row ickRow) ickRow {
	r := d.recent(v, kind, row.Name)
	row.Marked, row.Committed, row.Spark, row.Folding = r.now["new"]+r.now["folded"], r.now["committed"], r.Spark, "–"
	if folded, all := row.Counters.Folded, row.Counters.New+row.Counters.Folded; all > 0 {
		row.Folding = percent(float64(folded) / float64(all))
	}
	return row
}

var ickColumns = []listColumn[ickRow]{
	{"name", "Name", false, false, func(a, b ickRow) int { return strings.Compare(a.Name, b.Name) }},
	{"dirty", "Dirty", true, false, func(a, b ickRow) int { return cmp.Compare(a.Waiting, b.Waiting) }},
	{"reserved", "Reserved", true, false, func(a, b ickRow) int { return cmp.Compare(a.Reserved, b.Reserved) }},
	{"parked", "Parked", true, false, func(a, b ickRow) int { return cmp.Compare(a.Parked, b.Parked) }},
	{"oldest", "Oldest", true, false, func(a, b ickRow) int { return cmp.Compare(a.Oldest, b.Oldest) }},
	{"folded", "Folded", true, false, nil},
	{"marked", "Marked/s", true, false, func(a, b ickRow) int { return cmp.Compare(a.Marked, b.Marked) }},
	{"committed", "Committed/s", true, false, func(a, b ickRow) int { return cmp.Compare(a.Committed, b.Committed) }},
	{"spark", "Committed, 5 min", false, false, nil},
}

func (d *Dashboard) icks(a *asked) (scene, error) {
	asked := a.URL.Query()
	return func(v *survey.View) body {
		l := newList[ickRow](v, "Dirty lists", survey.Ick, survey.Channel)
		for _, c := range v.Channels {
			l.Rows = append(l.Rows, d.newChannelRow(v, c))
		}
		for _, k := range v.Icks {
			l.Rows = append(l.Rows, d.newIckRow(v, k))
		}
		l.Heads = sortRows(asked, d.link("icks"), l.Rows, ickColumns)
		return l
	}, nil
}

// ickPage is the page of a dirty list or of a channel.
type ickPage struct {
	heading

	ickRow
	How     presence
	Totals  []readable.Counter
	Channel string      // of a list; empty for none
	Lists   []ick.Stats // of a channel
	Browser *parkedList // nil for a channel, and in streams
}

// parkedList is members that failed.
type parkedList struct {
	Rows    []ick.Parked
	More    bool
	Wrong   string
	Hint    string
	Dialogs []dialog
	View    string // always empty: there is only one
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
	find, err := follow(d, a, survey.Ick, name, allIcks, func(s ick.Stats) string { return s.Name },
		func(ctx context.Context) (ick.Stats, error) { return k.Stats(ctx) })
	if err != nil {
		return nil, err
	}
	var parked *parkedList
	if !a.live {
		parked = d.parked(a.Context(), k)
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		p := ickPage{
			heading: heading{Title: plain(name)}, ickRow: d.newIckRow(v, stats), How: how,
			Totals: readable.Counters(stats.Counters), Channel: channelOf(v, name), Browser: parked,
		}
		if p.Channel == "" { // else the channel's page has them
			p.Charts = []chart{d.chart(v, "ick", name), d.chart(v, "dirty", name)}
		}
		return p
	}, nil
}

// allIcks are all dirty lists of a View, including those of channels.
func allIcks(v *survey.View) []ick.Stats {
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
		if slices.ContainsFunc(c.Icks, func(k ick.Stats) bool { return k.Name == name }) {
			return c.Name
		}
	}
	return ""
}

// parked reads the parked members.
func (d *Dashboard) parked(ctx context.Context, k *ick.Ick) *parkedList {
	l := &parkedList{Dialogs: d.dialogs("icks", k.Name(), "retry", "drop")}
	for p, err := range k.Parked(ctx) {
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

func (d *Dashboard) channel(a *asked) (scene, error) {
	name, err := a.name()
	if err != nil {
		return nil, err
	}
	c, err := ick.NewChannel(d.cfg.Client, name, ick.ChannelConfig{})
	if err != nil {
		return nil, err
	}
	find, err := follow(d, a, survey.Channel, name, func(v *survey.View) []ick.ChannelStats { return v.Channels },
		func(s ick.ChannelStats) string { return s.Name }, func(ctx context.Context) (ick.ChannelStats, error) { return c.Stats(ctx) })
	if err != nil {
		return nil, err
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		return ickPage{
			heading: heading{Title: plain(name), Charts: []chart{d.chart(v, "channel", name), d.chart(v, "spread", name)}},
			ickRow:  d.newChannelRow(v, stats), How: how, Totals: readable.Counters(stats.Counters), Lists: stats.Icks,
		}
	}, nil
}
