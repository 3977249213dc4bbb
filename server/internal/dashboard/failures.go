package dashboard

import (
	"context"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/survey"
)

// failuresPage is who fails, and why, with what helps.
type failuresPage struct {
	heading

	Queue       string
	How         presence
	Failing     failingList
	Retries     []failureGroup
	MoreRetries int
	Dead        []failureGroup
	MoreDead    int
	Found       fairqueue.Found // of the retries
	DeadFound   fairqueue.Found
	Retry       string // path of the form that retries
	Wrong, Hint string
}

// failingList is the tenants that failed lately.
type failingList struct {
	Rows  []failingRow
	Now   int    // that failed in the last ten minutes
	More  int    // not shown
	Acts  bool   // a row has buttons
	Retry string // path of the form that retries
	All   string // path of the page with all; empty on it
}

// failingRow is one of them.
type failingRow struct {
	queuestats.Failures

	Key       string // on the page
	Path      string // of the tenant's page; empty in a queue with streams
	Messages  string // path of a search for its retries
	View      string // the query of that search
	State     string // why it waits, if it is stopped
	Stopped   bool   // paused, or throttled: it can be resumed
	Over      bool   // it did not fail for ten minutes
	PerMinute float64
}

// Short is the beginning of the last error.
func (r failingRow) Short() string { return cut(r.Reason, 120) }

const maxFailingShown = 5 // on the page of a queue

// newFailing returns the first tenants that failed, or all if most is 0.
func (d *Dashboard) newFailing(s fairqueue.Stats, most int) failingList {
	l := failingList{Acts: most == 0, Retry: d.link("queues", s.Name, "retry-failed")}
	flows := map[string]queuestats.Flow{}
	for _, f := range s.Flows {
		if f.Stream < 0 {
			flows[f.Tenant] = f
		}
	}
	why := diagnosis.WhyWaits(s)
	for i, f := range s.Failing {
		over := s.At.Sub(f.Newest) >= finding.FailingAge
		if !over {
			l.Now++
		}
		if most > 0 && i >= most {
			l.More++
			continue
		}
		view := pairs("state", string(fairqueue.Delayed), "tenant", f.Tenant)
		r := failingRow{
			Failures: f, Key: "t" + token(f.Tenant), View: view, Messages: d.link("queues", s.Name, "search") + "?" + view, Over: over,
			PerMinute: float64(f.Count) / max(1, f.Newest.Sub(f.Oldest).Minutes()),
		}
		if s.Streams == 0 {
			r.Path = d.tenantPath(s.Name, f.Tenant)
		}
		if flow, waits := flows[f.Tenant]; waits {
			r.State, r.Stopped = state(flow, why(flow), s.At), why(flow) == diagnosis.ForPause
		}
		l.Rows = append(l.Rows, r)
	}
	if most > 0 {
		l.All = d.link("queues", s.Name, "failures")
	}
	return l
}

func (d *Dashboard) failures(a *asked) (scene, error) {
	q, find, err := d.followQueue(a)
	if err != nil {
		return nil, err
	}
	name := q.Name()
	p := failuresPage{heading: heading{Title: "Failures of " + plain(name)}, Queue: name, Retry: d.link("queues", name, "retry-failed")}
	if !a.live {
		if err := d.readFailures(a.Context(), q, &p); err != nil {
			p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
		}
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		p := p
		p.How, p.Failing, p.Charts = how, d.newFailing(stats, 0), []chart{d.chart(v, "outcomes", name)}
		return p
	}, nil
}

// readFailures reads the errors of retries and of dead messages.
func (d *Dashboard) readFailures(ctx context.Context, q *fairqueue.Queue, p *failuresPage) error {
	retries, found, err := q.Failures(ctx, fairqueue.SearchConfig{})
	if err != nil {
		return err
	}
	p.Found = found
	p.Retries, p.MoreRetries = d.failureGroups(q.Name(), fairqueue.Delayed, retries)
	dead, found, err := q.Failures(ctx, fairqueue.SearchConfig{State: fairqueue.Dead})
	if err != nil {
		return err
	}
	p.DeadFound = found
	p.Dead, p.MoreDead = d.failureGroups(q.Name(), fairqueue.Dead, dead)
	return nil
}
