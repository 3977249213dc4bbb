package dashboard

import (
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// channelPage is the page of one channel.
type channelPage struct {
	heading

	Name     string
	How      presence
	Stats    ick.ChannelStats
	Folding  string
	Lately   map[string]float64
	Counters []readable.Counter
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
	of, err := follow(d.cfg.Survey.View(), followed[ick.ChannelStats]{
		kind: survey.Channel, name: name,
		find:  func(v *survey.View) []ick.ChannelStats { return v.Channels },
		title: func(s ick.ChannelStats) string { return s.Name },
	}, func() (ick.ChannelStats, error) { return c.Stats(a.Context()) })
	if err != nil {
		return nil, err
	}
	return func(v *survey.View) body {
		stats, how := of.in(v)
		return channelPage{
			heading: heading{Title: plain(name), Charts: []chart{d.chart(v, "channel", name), d.chart(v, "spread", name)}},
			Name:    name, How: how, Stats: stats, Folding: folding(stats.Counters),
			Lately: d.recent(v, survey.Channel, name).now, Counters: readable.Counters(stats.Counters),
		}
	}, nil
}
