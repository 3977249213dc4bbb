package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
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
	Groups                                         []failureGroup
	MoreGroups                                     int // that are not listed
	Found                                          fairqueue.Found
	Next                                           string // path that goes on; empty at the end
	Controls                                       []dialog
	Wrong, Hint                                    string
}

// maxGroups is how many reasons a page lists: some have an id or an address in them.
const maxGroups = 100

// failureGroup is messages that failed with the same error.
type failureGroup struct {
	queuestats.Failures

	Path string // of a search for them
	View string // the query of that search
}

// failureGroups are those with the most messages, and how many more there are.
func (d *Dashboard) failureGroups(queue string, state fairqueue.State, all []queuestats.Failures) (groups []failureGroup, more int) {
	more = max(0, len(all)-maxGroups)
	for _, f := range all[:len(all)-more] {
		view := pairs("state", string(state), "reason", f.Reason)
		groups = append(groups, failureGroup{f, d.link("queues", queue, "search") + "?" + view, view})
	}
	return groups, more
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
			if (p.State == string(fairqueue.Dead) || p.State == string(fairqueue.Delayed)) && err == nil && d.cfg.Actions {
				p.Controls, err = d.matching(a.Context(), q, p.config(""), asked)
			}
		} else {
			var groups []queuestats.Failures
			groups, p.Found, err = q.Failures(a.Context(), fairqueue.SearchConfig{State: fairqueue.Dead, After: asked.Get("after")})
			p.Groups, p.MoreGroups = d.failureGroups(queue, fairqueue.Dead, groups)
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

// matching returns the actions on all messages that failed and match, with their number.
func (d *Dashboard) matching(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig, asked url.Values) ([]dialog, error) {
	groups, found, err := q.Failures(ctx, cfg)
	n := 0
	for _, g := range groups {
		n += g.Count
	}
	if err != nil || n == 0 && found.Next == "" {
		return nil, err
	}
	thing, words, questions := "dead message", []string{"redrive-matching", "purge-matching"}, []string{"Redeliver all that match, %s?", "Delete all that match, %s?"}
	if cfg.State == fairqueue.Delayed {
		thing, words, questions = "retry", []string{"retry-matching"}, []string{"Retry all that failed and match, %s?"}
	}
	number := readable.Count(n, thing)
	if found.Next != "" {
		number = "at least " + number
	}
	asked.Del("after")
	all := d.dialogs("queues", q.Name(), words...)
	for i, question := range questions {
		all[i].Title, all[i].View = fmt.Sprintf(question, number), asked.Encode()
	}
	return all, nil
}

func retryAll(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig) (int, fairqueue.Found, error) {
	return q.Retry(ctx, cfg)
}

func redriveMatching(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	return f.matching(ctx, q, fairqueue.Dead, "waiting again", retryAll)
}

func retryMatching(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	return f.matching(ctx, q, fairqueue.Delayed, "waiting now", retryAll)
}

func purgeMatching(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	return f.matching(ctx, q, fairqueue.Dead, "deleted", func(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig) (int, fairqueue.Found, error) {
		return q.Dead().PurgeMatching(ctx, cfg)
	})
}

// matching applies do to the messages in a state that the search of the form finds.
func (f form) matching(ctx context.Context, q *fairqueue.Queue, state fairqueue.State, done string,
	do func(context.Context, *fairqueue.Queue, fairqueue.SearchConfig) (int, fairqueue.Found, error),
) (string, error) {
	asked, err := url.ParseQuery(f.Get("view"))
	if err != nil || asked.Get("state") != string(state) {
		return "", errForm
	}
	search := newSearch("", asked)
	cfg := search.config("")
	cfg.Look = 0 // all
	n, found, err := do(ctx, q, cfg)
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
