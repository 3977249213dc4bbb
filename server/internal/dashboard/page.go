package dashboard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/access"
)

const (
	// pageTimeout limits the calls to Redis of one page.
	pageTimeout = 5 * time.Second

	// awayTimeout is used instead while Redis does not answer.
	awayTimeout = time.Second
)

// page is one of the pages.
type page struct {
	path    string // of the request, as a pattern of http.ServeMux
	file    string // its template
	section string // of the navigation
	open    opener
}

// opener prepares a page. It asks Redis once for data that a View does not have.
type opener func(a *asked) (scene, error)

// scene turns a View into the content of the page. A live page calls it for each new View.
type scene func(v *survey.View) body

// asked is a request for a page.
type asked struct {
	*http.Request

	// live means that the request is for a stream, which shows only the changing parts.
	live bool
}

// name returns the name of the structure in the path.
func (a *asked) name() (string, error) {
	name, ok := untoken(a.PathValue("name"))
	if !ok {
		return "", errNoPage
	}
	return name, nil
}

// body is the content of a page inside its frame.
type body interface {
	head() heading
}

// heading is the data that the frame needs from the body. Bodies embed it.
type heading struct {
	Title  string
	Charts []chart
}

func (h heading) head() heading { return h }

// frame is the data of a template.
type frame struct {
	Title   string
	Section string
	Live    string // the path of its stream
	Charted bool   // it has charts
	Actions bool   // people may change things
	Nav     []section
	Pulse   pulse
	Flash   *flash
	Body    body
}

// show serves a page.
func (d *Dashboard) show(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, wait := d.cfg.Survey.View(), pageTimeout
		if v.Away() != nil {
			wait = awayTimeout
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		r = r.WithContext(ctx)
		scene, err := p.open(&asked{Request: r})
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		f := d.frame(access.Of(ctx), p, v, scene)
		f.Live = d.cfg.Prefix + "/live" + r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			f.Live += "?" + r.URL.RawQuery
		}
		f.Flash = takeFlash(w, r, d.link())
		d.write(w, r, http.StatusOK, p.file, f)
	}
}

// frame renders a scene for a View. It has the actions that the client may do.
func (d *Dashboard) frame(c access.Client, p page, v *survey.View, s scene) frame {
	b := s(v)
	h := b.head()
	return frame{
		Title: h.Title, Charted: len(h.Charts) > 0, Section: p.section, Actions: d.cfg.Actions && c.May(access.Operator) == nil,
		Nav: d.sections(v, p.section), Pulse: newPulse(v, time.Now()), Body: b,
	}
}

// write writes a whole page or an error.
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

var errNoPage = errors.New("there is no such page")
