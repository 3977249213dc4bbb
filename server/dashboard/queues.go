package dashboard

import (
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/server/survey"
	"github.com/millrace/millrace/shuffleshard"
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
}

func (d *Dashboard) queues(*asked) (scene, error) {
	return func(v *survey.View) body {
		l := queueList{heading: heading{Title: "Queues"}, Looked: !v.Named.IsZero(), LeftOut: v.LeftOut[survey.Queue]}
		for _, q := range v.Queues {
			lately := d.recent(v, survey.Queue, q.Name)
			l.Rows = append(l.Rows, queueRow{q, lately.now["written"], lately.now["acked"], lately.Spark})
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
	Heat     heat
	Tenant   tenant
	Lately   map[string]float64
	Counters []counter
	Browser  *browser // nil for what is live
	Controls []request
}

// counter is what a structure has counted since it began.
type counter struct {
	Name  string
	N     int64
	Title string
}

// tenant is whose streams are drawn.
type tenant struct {
	Name    string
	Streams []int
	Wrong   string // why they cannot be
	All     string // how likely another tenant shares all of them
	None    string // and none
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
	whose := d.tenant(a, q, queue.last)
	var seen *browser
	if !a.live {
		seen = d.browse(a, q, queue.last)
	}
	return func(v *survey.View) body {
		stats, how := queue.in(v)
		return queuePage{
			heading: heading{Title: plain(name), Charts: []chart{d.chart(v, "queue", name), d.chart(v, "backlog", name)}},
			Name:    name, How: how, Stats: stats, Heat: newHeat(stats, whose.Streams), Tenant: whose,
			Lately: d.recent(v, survey.Queue, name).now, Counters: queueCounters(stats.Counters), Browser: seen,
			Controls: d.queueControls(stats),
		}
	}, nil
}

// tenant looks up the streams of the tenant that the request names.
func (d *Dashboard) tenant(a *asked, q *fairqueue.Queue, s fairqueue.Stats) tenant {
	t := tenant{Name: a.URL.Query().Get("shard")}
	chances := shuffleshard.Collision(s.StreamCount, s.PerTenant)
	t.All, t.None = odds(chances[len(chances)-1]), percent(chances[0])
	if t.Name == "" {
		return t
	}
	var err error
	if t.Streams, err = q.Shard(a.Context(), t.Name); err != nil {
		t.Wrong = sentence(err.Error())
	}
	return t
}

func queueCounters(c fairqueue.Counters) []counter {
	return []counter{
		{"Written", c.Written, "messages written, also those with a delay"},
		{"Delivered", c.Delivered, "deliveries"},
		{"Acked", c.Acked, "messages acknowledged"},
		{"Nacked", c.Nacked, "deliveries given back because they failed"},
		{"Returned", c.Returned, "deliveries handed back because nobody was there any more"},
		{"Reclaimed", c.Reclaimed, "deliveries whose reader did not finish in time"},
		{"Expired", c.Expired, "messages whose deadline came before their turn"},
		{"Cancelled", c.Cancelled, "messages cancelled"},
		{"Buried", c.Buried, "messages that died"},
		{"Redriven", c.Redriven, "dead messages that were given another try"},
		{"Purged", c.Purged, "dead messages that were forgotten"},
	}
}
