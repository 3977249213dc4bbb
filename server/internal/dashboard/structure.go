package dashboard

import (
	"context"
	"net/http"
	"slices"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/survey"
)

// list is the page of all structures of a kind.
type list[R any] struct {
	heading

	Surveyed bool         // names were listed
	Heads    []columnHead // of a list that can be sorted
	Rows     []R
	LeftOut  int
}

func newList[R any](v *survey.View, title string, kinds ...survey.Kind) list[R] {
	l := list[R]{heading: heading{Title: title}, Surveyed: !v.Named.IsZero()}
	for _, kind := range kinds {
		l.LeftOut += v.LeftOut[kind]
	}
	return l
}

// presence tells whether the numbers of a structure are current.
type presence string

const (
	watched   presence = ""
	unwatched presence = "unwatched" // the survey does not cover it, or cannot read it
	vanished  presence = "vanished"  // it was deleted
)

// follow returns a function that finds a structure in successive Views, or else returns its
// last known state. It reads a structure that the survey does not cover.
func follow[S any](
	d *Dashboard, a *asked, kind survey.Kind, name string, find func(*survey.View) []S, nameOf func(S) string, read func(context.Context) (S, error),
) (func(*survey.View) (S, presence), error) {
	var last S
	seen := false
	in := func(v *survey.View) (S, presence) {
		all := find(v)
		if i := slices.IndexFunc(all, func(s S) bool { return nameOf(s) == name }); i >= 0 {
			last, seen = all[i], true
			return last, watched
		}
		failed := slices.ContainsFunc(v.Troubles, func(t survey.Trouble) bool {
			return t.Kind == kind && (t.Name == name || t.Name == "")
		})
		if seen && !failed {
			return last, vanished
		}
		return last, unwatched
	}
	var err error
	if _, how := in(d.cfg.Survey.View()); how != watched {
		last, err = read(a.Context())
	}
	return in, err
}

// followQueue returns the queue of a page, and follow for it.
func (d *Dashboard) followQueue(a *asked) (*fairqueue.Queue, func(*survey.View) (fairqueue.Stats, presence), error) {
	name, err := a.name()
	if err != nil {
		return nil, nil, err
	}
	q, err := fairqueue.New(d.cfg.Client, name, fairqueue.Config{})
	if err != nil {
		return nil, nil, err
	}
	find, err := follow(d, a, survey.Queue, name, func(v *survey.View) []fairqueue.Stats { return v.Queues },
		func(s fairqueue.Stats) string { return s.Name }, func(ctx context.Context) (fairqueue.Stats, error) { return q.Stats(ctx) })
	return q, find, err
}

// open redirects to the page of a structure by name, also if no list has it.
func (d *Dashboard) open(w http.ResponseWriter, r *http.Request) {
	section, name := r.PathValue("section"), r.URL.Query().Get("name")
	page := d.link(section, name)
	switch {
	case section != "queues" && section != "icks":
		d.refuse(w, r, errNoPage)
		return
	case name == "":
		page = d.link(section)
	case section == "icks" && d.isChannel(r.Context(), name):
		page = d.link("channels", name)
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
}

// isChannel reports whether there is a channel of that name.
func (d *Dashboard) isChannel(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	c, err := ick.NewChannel(d.cfg.Client, name, ick.ChannelConfig{})
	if err == nil {
		_, err = c.Stats(ctx)
	}
	return err == nil
}
