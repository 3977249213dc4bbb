package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// searchPage is a search for messages of a queue, and the reasons of dead ones.
type searchPage struct {
	heading

	Queue                                          string
	State, Tenant, ID, Header, Value, Text, Reason string
	Rows                                           []messageRow
	Groups                                         []deadGroup
	MoreGroups                                     int // that are not listed
	Found                                          fairqueue.Found
	Next                                           string // path that goes on; empty at the end
	Controls                                       []dialog
	Wrong, Hint                                    string
}

// maxGroups is how many reasons a page lists: some have an id or an address in them.
const maxGroups = 100

// deadGroup is dead messages with the same reason.
type deadGroup struct {
	fairqueue.DeadGroup

	Path string // of a search for them
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
	p := newSearch(queue, asked)
	if !a.live {
		path := d.link("queues", queue, "search")
		if asked.Has("state") {
			p.Found, err = q.Search(a.Context(), p.config(asked.Get("after")))
			for _, m := range p.Found.Messages {
				p.Rows = append(p.Rows, newMessageRow(m, p.State == string(fairqueue.Dead)))
			}
			if p.State == string(fairqueue.Dead) && err == nil && d.cfg.Actions {
				p.Controls, err = d.matching(a.Context(), q, p.config(""), asked)
			}
		} else {
			var groups []fairqueue.DeadGroup
			groups, p.Found, err = q.Dead().Groups(a.Context(), fairqueue.SearchConfig{After: asked.Get("after")})
			p.MoreGroups = max(0, len(groups)-maxGroups)
			for _, g := range groups[:len(groups)-p.MoreGroups] {
				reason := url.Values{"state": {string(fairqueue.Dead)}, "reason": {g.Reason}}
				p.Groups = append(p.Groups, deadGroup{g, path + "?" + reason.Encode()})
			}
		}
		if p.Found.Next != "" {
			asked.Set("after", p.Found.Next)
			p.Next = path + "?" + asked.Encode()
		}
		if err != nil {
			p.Wrong, p.Hint = sentence(err.Error()), millrace.Hint(err)
		}
	}
	return func(*survey.View) body { return p }, nil
}

// newSearch returns the form as it was sent.
func newSearch(queue string, asked url.Values) searchPage {
	return searchPage{
		heading: heading{Title: "Search in " + plain(queue)}, Queue: queue,
		State: asked.Get("state"), Tenant: asked.Get("tenant"), ID: asked.Get("id"),
		Header: asked.Get("header"), Value: asked.Get("value"), Text: asked.Get("text"), Reason: asked.Get("reason"),
	}
}

// config returns the search of the form.
func (p searchPage) config(after string) fairqueue.SearchConfig {
	cfg := fairqueue.SearchConfig{
		State: fairqueue.State(p.State), Tenant: p.Tenant, ID: p.ID, Text: p.Text, Reason: p.Reason, Max: maxRows, After: after,
	}
	if p.Header != "" {
		cfg.Headers = map[string]string{p.Header: p.Value}
	}
	return cfg
}

// matching returns the actions on all dead messages that match, with their number.
func (d *Dashboard) matching(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig, asked url.Values) ([]dialog, error) {
	groups, found, err := q.Dead().Groups(ctx, cfg)
	n := 0
	for _, g := range groups {
		n += g.Count
	}
	if err != nil || n == 0 && found.Next == "" {
		return nil, err
	}
	number := readable.Count(n, "dead message")
	if found.Next != "" {
		number = "at least " + number
	}
	asked.Del("after")
	all := d.dialogs("queues", q.Name(), "redrive-matching", "purge-matching")
	for i, question := range []string{"Redeliver all that match, %s?", "Delete all that match, %s?"} {
		all[i].Title, all[i].View = fmt.Sprintf(question, number), asked.Encode()
	}
	return all, nil
}

func redriveMatching(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	return f.matching(ctx, "waiting again", q.Dead().RedriveMatching)
}

func purgeMatching(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	return f.matching(ctx, "deleted", q.Dead().PurgeMatching)
}

// matching applies do to the messages that the search of the form finds.
func (f form) matching(ctx context.Context, done string, do func(context.Context, fairqueue.SearchConfig) (int, fairqueue.Found, error)) (string, error) {
	asked, err := url.ParseQuery(f.Get("view"))
	if err != nil || asked.Get("state") != string(fairqueue.Dead) {
		return "", errForm
	}
	search := newSearch("", asked)
	cfg := search.config("")
	cfg.Look = 0 // all
	n, found, err := do(ctx, cfg)
	text := fmt.Sprintf("%s %s%s", readable.Count(n, "message"), done, search.words())
	if err != nil && n > 0 {
		err = fmt.Errorf("%s, and then: %w", text, err)
	}
	return fmt.Sprintf("%s; looked at %s of %s.", text, readable.Number(found.Looked), readable.Number(found.Total)), err
}

// words describes the search, for the audit log.
func (p searchPage) words() string {
	var text strings.Builder
	for _, field := range [][2]string{
		{"tenant", p.Tenant}, {"id", p.ID}, {"header " + p.Header, p.Value}, {"text", p.Text}, {"reason", p.Reason},
	} {
		if field[1] != "" {
			fmt.Fprintf(&text, ", %s %q", plain(field[0]), plain(cut(field[1], 60)))
		}
	}
	return text.String()
}

// openMessage leads from the id of a message to the search that shows it, in whichever state it is.
func (d *Dashboard) openMessage(w http.ResponseWriter, r *http.Request) {
	queue, ok := untoken(r.PathValue("name"))
	if !ok {
		d.refuse(w, r, errNoPage)
		return
	}
	q, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{})
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	in := ops.MessageID{Queue: jsontype.Text(queue), ID: r.PathValue("id")}
	found, err := ops.ShowMessage.Do(r.Context(), q, in)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	at := url.Values{"state": {found.State}, "id": {found.ID}}
	http.Redirect(w, r, d.link("queues", queue, "search")+"?"+at.Encode(), http.StatusSeeOther)
}
