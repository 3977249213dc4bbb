package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/survey"
)

// Why a request is refused before anything is asked of Redis.
var (
	errCrossOrigin = &millrace.Error{
		Code:    "cross_origin",
		Message: "a page of another site asks for this",
		Hint:    "Do it from this dashboard's own pages.",
	}
	errReadOnly = &millrace.Error{
		Code:    "read_only",
		Message: "this dashboard is for looking at things",
		Hint:    "Start it with --allow-actions (Config.Actions in a program) to change things from here, or use the command: millrace --help",
	}
	errCrowded = &millrace.Error{
		Code:    "crowded",
		Message: "too many pages are open at the same time",
		Hint:    "Close some; a page that cannot be live still shows the numbers of when it was loaded.",
	}
	errMethod = &millrace.Error{
		Code:    "bad_method",
		Message: "this path cannot be asked in that way",
		Hint:    "Pages are read with GET. Things are changed with POST, by the forms of the pages.",
	}
)

// problem is the page of something that went wrong.
type problem struct {
	heading

	Status  int
	Message string
	Hint    string
}

// refuse answers with the page of an error.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := d.problem(err)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if p.Status >= http.StatusInternalServerError {
		d.cfg.Logger.WarnContext(r.Context(), "a page was refused", "path", plain(r.URL.Path), "err", err)
	}
	if r.Header.Get("Hx-Request") == "true" { // it would look for a part of a page that this one has not
		w.Header().Set("Hx-Retarget", "#main")
		w.Header().Set("Hx-Reselect", "#main")
		w.Header().Set("Hx-Reswap", "outerHTML")
	}
	f := d.frame(page{}, d.cfg.Survey.View(), func(*survey.View) body { return p })
	d.write(w, r, p.Status, "problem", f)
}

// problem says what an error means for the reader of a page.
func (d *Dashboard) problem(err error) problem {
	p := problem{Status: http.StatusInternalServerError, Message: sentence(err.Error()), Hint: millrace.Hint(err)}
	code := millrace.Code(err)
	switch {
	case errors.Is(err, errNoPage):
		p.Status, p.Message, p.Hint = http.StatusNotFound, "There is no page of that address.", "The sections are all in the navigation."
	case errors.Is(err, errMethod):
		p.Status = http.StatusMethodNotAllowed
	case errors.Is(err, errCrossOrigin), errors.Is(err, errReadOnly):
		p.Status = http.StatusForbidden
	case errors.Is(err, errCrowded):
		p.Status = http.StatusServiceUnavailable
	case code == "not_found":
		p.Status = http.StatusNotFound
	case strings.HasPrefix(code, "bad_"):
		p.Status = http.StatusBadRequest
	case code == "":
		p.Status = http.StatusServiceUnavailable
		p.Hint = "Redis does not answer as it should. See that it runs and can be reached; this page works again when it does."
		if errors.Is(err, context.DeadlineExceeded) {
			p.Message = "Redis did not answer in time."
		}
	}
	p.Title = titles[p.Status]
	return p
}

// titles are what pages of problems are called.
var titles = map[int]string{
	http.StatusBadRequest:          "That cannot be asked",
	http.StatusForbidden:           "Not from here",
	http.StatusNotFound:            "Not found",
	http.StatusMethodNotAllowed:    "Not in that way",
	http.StatusInternalServerError: "Something is broken",
	http.StatusServiceUnavailable:  "Not at the moment",
}

// sentence makes a sentence of an error's text.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return stop(strings.ToUpper(text[:1]) + text[1:])
}

// stop ends a text with a full stop.
func stop(text string) string { return strings.TrimSuffix(text, ".") + "." }

// elsewhere answers what no route is for: with 405 if another method would have one.
func (d *Dashboard) elsewhere(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := d.pages.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		d.refuse(w, r, errNoPage)
		return
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	d.refuse(w, r, errMethod)
}
