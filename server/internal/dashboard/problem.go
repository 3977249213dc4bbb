package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/access"
)

// Errors of requests that do not reach Redis.
var (
	errCrossOrigin = &millrace.Error{
		Code:    "cross_origin",
		Message: "a page of another site sent this request",
		Hint:    "Use this dashboard's own pages.",
	}
	errReadOnly = &millrace.Error{
		Code:    "read_only",
		Message: "this dashboard is read-only",
		Hint:    "Start it with --allow-actions (Config.Actions in a program) to allow changes, or use the command: millrace --help",
	}
	errCrowded = &millrace.Error{
		Code:    "crowded",
		Message: "too many pages are open at the same time",
		Hint:    "Close some. A page that is not live still shows the numbers from when it was loaded.",
	}
	errMethod = &millrace.Error{
		Code:    "bad_method",
		Message: "this path does not support this method",
		Hint:    "GET reads pages, and the forms of the pages send POST.",
	}
)

// problem is the page of an error.
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
	if r.Header.Get("Hx-Request") == "true" { // replace the whole page, since this one has no such part
		w.Header().Set("Hx-Retarget", "#main")
		w.Header().Set("Hx-Reselect", "#main")
		w.Header().Set("Hx-Reswap", "outerHTML")
	}
	f := d.frame(access.Of(r.Context()), page{}, d.cfg.Survey.View(), func(*survey.View) body { return p })
	d.write(w, r, p.Status, "problem", f)
}

// problem describes an error for the reader of a page.
func (d *Dashboard) problem(err error) problem {
	p := problem{Status: http.StatusInternalServerError, Message: sentence(err.Error()), Hint: millrace.Hint(err)}
	code := millrace.Code(retry.Bare(err))
	switch {
	case errors.Is(err, errNoPage):
		p.Status, p.Message, p.Hint = http.StatusNotFound, "This page does not exist.", "The navigation lists all sections."
	case errors.Is(err, errMethod):
		p.Status = http.StatusMethodNotAllowed
	case errors.Is(err, errCrossOrigin), errors.Is(err, errReadOnly), errors.Is(err, access.ErrForbidden):
		p.Status = http.StatusForbidden
	case errors.Is(err, errSlowForm):
		p.Status = http.StatusRequestTimeout
	case errors.Is(err, errCrowded), code == "busy", code == "read_only", code == millrace.ErrUnavailable.Code:
		p.Status = http.StatusServiceUnavailable
	case code == "not_found":
		p.Status = http.StatusNotFound
	case strings.HasPrefix(code, "bad_"):
		p.Status = http.StatusBadRequest
	case code == "":
		p.Status = http.StatusServiceUnavailable
		p.Hint = "Check that Redis runs and can be reached. This page works again when it does."
		if errors.Is(err, context.DeadlineExceeded) {
			p.Message = "Redis did not answer in time."
		}
	}
	p.Title = titles[p.Status]
	return p
}

// titles are the titles of error pages.
var titles = map[int]string{
	http.StatusBadRequest:          "Invalid request",
	http.StatusForbidden:           "Not allowed",
	http.StatusNotFound:            "Not found",
	http.StatusRequestTimeout:      "Too slow",
	http.StatusMethodNotAllowed:    "Method not allowed",
	http.StatusInternalServerError: "Internal error",
	http.StatusServiceUnavailable:  "Not available",
}

// sentence writes an error as a sentence.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return stop(strings.ToUpper(text[:1]) + text[1:])
}

// stop adds a full stop.
func stop(text string) string { return strings.TrimSuffix(text, ".") + "." }

// elsewhere answers requests without a route: with 405 if another method has one.
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
