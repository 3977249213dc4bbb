package dashboard

import (
	"net/url"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/survey"
)

// searchPage is a search for messages of a queue, and the reasons of dead ones.
type searchPage struct {
	heading

	Queue                                                   string
	State, Tenant, Account, ID, Header, Value, Text, Reason string
	Rows                                                    []messageRow
	Groups                                                  []deadGroup
	Found                                                   fairqueue.Found
	Next                                                    string // path that goes on; empty at the end
	Wrong, Hint                                             string
}

// deadGroup is dead messages with the same reason.
type deadGroup struct {
	fairqueue.DeadGroup

	Path string // of a search for them; empty if they have no reason
}

func (d *Dashboard) search(a *asked) (scene, error) {
	queue, err := a.name()
	if err != nil {
		return nil, err
	}
	q, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	asked := a.URL.Query()
	p := searchPage{
		heading: heading{Title: "Search in " + plain(queue)}, Queue: queue,
		State: asked.Get("state"), Tenant: asked.Get("tenant"), Account: asked.Get("account"), ID: asked.Get("id"),
		Header: asked.Get("header"), Value: asked.Get("value"), Text: asked.Get("text"), Reason: asked.Get("reason"),
	}
	if !a.live {
		path := d.link("queues", queue, "search")
		if len(asked) > 0 {
			p.Found, err = q.Search(a.Context(), p.config(asked.Get("after")))
			for _, m := range p.Found.Messages {
				p.Rows = append(p.Rows, newMessageRow(m, p.State == string(fairqueue.Dead)))
			}
			if p.Found.Next != "" {
				asked.Set("after", p.Found.Next)
				p.Next = path + "?" + asked.Encode()
			}
		} else {
			var groups []fairqueue.DeadGroup
			groups, p.Found, err = q.DeadGroups(a.Context(), fairqueue.SearchConfig{})
			for _, g := range groups {
				group := deadGroup{DeadGroup: g}
				if g.Reason != "" {
					group.Path = path + "?" + url.Values{"state": {string(fairqueue.Dead)}, "reason": {g.Reason}}.Encode()
				}
				p.Groups = append(p.Groups, group)
			}
		}
		if err != nil {
			p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
		}
	}
	return func(*survey.View) body { return p }, nil
}

// config returns the search of the form.
func (p searchPage) config(after string) fairqueue.SearchConfig {
	cfg := fairqueue.SearchConfig{
		State: fairqueue.State(p.State), Tenant: p.Tenant, Account: p.Account, ID: p.ID, Text: p.Text, Reason: p.Reason, Max: maxRows, After: after,
	}
	if p.Header != "" {
		cfg.Headers = map[string]string{p.Header: p.Value}
	}
	return cfg
}
