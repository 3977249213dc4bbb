package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/survey"
)

const (
	// patience is how long Redis may take over what one page asks of it.
	patience = 5 * time.Second

	// impatience is for how long it is asked while it does not answer anyway.
	impatience = time.Second
)

// page is one of the pages.
type page struct {
	path    string // of the request, as a pattern of http.ServeMux
	file    string // its template
	section string // of the navigation
	open    opener
}

// opener prepares what a request wants to see. It asks Redis for what is not in a
// View, and does so once, however long the page is looked at.
type opener func(a *asked) (scene, error)

// scene makes of a View what the page shows of it. A page that is looked at calls it
// for each new one.
type scene func(v *survey.View) body

// asked is a request for a page.
type asked struct {
	*http.Request

	// live says that only what changes is shown, so that the rest need not be read.
	live bool
}

// name returns the part of the path that names a structure.
func (a *asked) name() (string, error) {
	name, ok := untoken(a.PathValue("name"))
	if !ok {
		return "", errNoPage
	}
	return name, nil
}

// body is what a page shows inside its frame.
type body interface {
	head() heading
}

// heading is what the frame needs to know of what is in it. Bodies embed it.
type heading struct {
	Title  string
	Charts []chart
}

func (h heading) head() heading { return h }

// frame is all that a template is given.
type frame struct {
	Title   string
	Section string
	Live    string // where the page's stream is
	Charted bool   // it has charts
	Actions bool   // people may change things
	Nav     []station
	Pulse   pulse
	Flash   *flash
	Body    body
}

// show serves a page.
func (d *Dashboard) show(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, wait := d.cfg.Survey.View(), patience
		if v.Away() != nil {
			wait = impatience
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		r = r.WithContext(ctx)
		scene, err := p.open(&asked{Request: r})
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		f := d.frame(p, v, scene)
		f.Live = d.cfg.Prefix + "/live" + r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			f.Live += "?" + r.URL.RawQuery
		}
		f.Flash = takeFlash(w, r, d.link())
		d.write(w, r, http.StatusOK, p.file, f)
	}
}

// frame puts what a page shows of a View into its frame.
func (d *Dashboard) frame(p page, v *survey.View, s scene) frame {
	b := s(v)
	h := b.head()
	return frame{
		Title: h.Title, Charted: len(h.Charts) > 0, Section: p.section, Actions: d.cfg.Actions,
		Nav: d.stations(v, p.section), Pulse: newPulse(v, time.Now()), Body: b,
	}
}

// write writes a page as a whole, or nothing of it.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, file string, f frame) {
	var b bytes.Buffer
	if err := d.templates[file].whole.ExecuteTemplate(&b, "layout", f); err != nil {
		d.cfg.Logger.ErrorContext(r.Context(), "a page could not be made", "page", file, "err", err)
		http.Error(w, "This page could not be made. The log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes()) //nolint:errcheck // the client has gone
}

// errNoPage means that there is no page of that path.
var errNoPage = errors.New("there is no such page")
