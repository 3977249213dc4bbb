package dashboard

import (
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// queueList is the page of all queues.
type queueList struct {
	heading

	Looked  bool
	Rows    []queueRow
	LeftOut int
}

// queueRow is one queue of the list.
type queueRow struct {
	fairqueue.Stats

	Written, Acked float64 // a second
	Spark          spark
	Handlers       readerList
}

func (d *Dashboard) queues(*asked) (scene, error) {
	return func(v *survey.View) body {
		l := queueList{heading: heading{Title: "Queues"}, Looked: !v.Named.IsZero(), LeftOut: v.LeftOut[survey.Queue]}
		for _, q := range v.Queues {
			lately := d.recent(v, survey.Queue, q.Name)
			l.Rows = append(l.Rows, queueRow{q, lately.now["written"], lately.now["acked"], lately.Spark, newReaders(q)})
		}
		return l
	}, nil
}

// queuePage is the page of one queue.
type queuePage struct {
	heading

	Name     string
	How      presence
	Stats    fairqueue.Stats
	Flows    flowList
	Readers  readerList
	Lately   map[string]float64
	Counters []readable.Counter
	Browser  *browser // nil in streams
	Controls []request
}

func (d *Dashboard) queue(a *asked) (scene, error) {
	name, err := a.name()
	if err != nil {
		return nil, err
	}
	q, err := fairqueue.New(d.cfg.Client, name, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	queue, err := follow(d.cfg.Survey.View(), followed[fairqueue.Stats]{
		kind: survey.Queue, name: name,
		find:  func(v *survey.View) []fairqueue.Stats { return v.Queues },
		title: func(s fairqueue.Stats) string { return s.Name },
	}, func() (fairqueue.Stats, error) { return q.Stats(a.Context()) })
	if err != nil {
		return nil, err
	}
	query := a.URL.Query()
	by := sorting(query.Get("by"))
	at := browser{Place: query.Get("place"), Tenant: query.Get("tenant"), By: string(by)}
	var seen *browser
	if !a.live {
		seen = d.browse(a, q, queue.last)
	}
	return func(v *survey.View) body {
		stats, how := queue.in(v)
		return queuePage{
			heading: heading{Title: plain(name), Charts: []chart{d.chart(v, "queue", name), d.chart(v, "backlog", name)}},
			Name:    name, How: how, Stats: stats, Readers: newReaders(stats),
			Flows: newFlows(stats, by, func(by sorting) string { return d.flowsPath(name, at, by) }, func(tenant string) string {
				return d.browserPath(name, &browser{Tenant: tenant, By: string(by)}, string(fairqueue.Waiting), "")
			}),
			Lately: d.recent(v, survey.Queue, name).now, Counters: readable.Counters(stats.Counters), Browser: seen,
			Controls: d.queueControls(stats),
		}
	}, nil
}

// flowsPath returns the path of a ranking of the flows. It keeps the messages below.
func (d *Dashboard) flowsPath(name string, at browser, by sorting) string {
	return query(d.link("queues", name), "place", at.Place, "tenant", at.Tenant, "by", string(by)) + "#flows"
}
