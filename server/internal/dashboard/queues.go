package dashboard

import (
	"github.com/millrace/millrace/fairqueue"
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
	Counters []counter
	Browser  *browser // nil in streams
	Controls []request
}

// counter is a counter of a structure since it began.
type counter struct {
	Name  string
	N     int64
	Title string
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
			Lately: d.recent(v, survey.Queue, name).now, Counters: queueCounters(stats.Counters), Browser: seen,
			Controls: d.queueControls(stats),
		}
	}, nil
}

// flowsPath returns the path of a ranking of the flows. It keeps the messages below.
func (d *Dashboard) flowsPath(name string, at browser, by sorting) string {
	return query(d.link("queues", name), "place", at.Place, "tenant", at.Tenant, "by", string(by)) + "#flows"
}

func queueCounters(c fairqueue.Counters) []counter {
	return []counter{
		{"Written", c.Written, "messages written, including delayed ones"},
		{"Delivered", c.Delivered, "deliveries"},
		{"Acked", c.Acked, "messages acknowledged"},
		{"Nacked", c.Nacked, "deliveries that failed and were returned"},
		{"Returned", c.Returned, "deliveries returned without an attempt, because the reader had gone"},
		{"Reclaimed", c.Reclaimed, "deliveries that ran out of time and were redelivered"},
		{"Expired", c.Expired, "messages that expired before their turn"},
		{"Cancelled", c.Cancelled, "messages cancelled"},
		{"Buried", c.Buried, "messages that died"},
		{"Redriven", c.Redriven, "dead messages that were redelivered"},
		{"Purged", c.Purged, "dead messages that were purged"},
		{"Dropped", c.Dropped, "dead messages that were dropped because of their number or age"},
		{"Lost", c.Lost, "messages whose body was deleted by something else than the library"},
	}
}
