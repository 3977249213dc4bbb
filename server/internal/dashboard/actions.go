package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/readable"
)

const (
	maxForm       = 1 << 20 // bytes
	formTimeout   = 10 * time.Second
	actionTimeout = 30 * time.Second
)

var errConfirm = &millrace.Error{
	Code:    "bad_confirmation",
	Message: "nothing was done: the typed name is a different one",
	Hint:    "Type the name as the page shows it.",
}

// action changes the structure that the path names, with the values of a form. It
// returns a sentence about what was done.
type action struct {
	path string // of the request, as a pattern of http.ServeMux
	word string // for the log
	do   func(ctx context.Context, name string, r *http.Request) (string, error)
	back func(name string) string // the page to return to
}

// act serves an action and redirects to a page that shows the result, so that reloading
// the page does not repeat the action.
func (d *Dashboard) act(a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !d.cfg.Actions {
			d.refuse(w, r, errReadOnly)
			return
		}
		name, ok := untoken(r.PathValue("name"))
		if !ok {
			d.refuse(w, r, errNoPage)
			return
		}
		// net/http removes the deadline after the form. Without a connection there is none.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTimeout))
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			d.refuse(w, r, errForm.Wrap(err))
			return
		}
		// An action is finished even if the client disconnects.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
		defer cancel()
		done, err := a.do(ctx, name, r)
		log := d.cfg.Logger.With("action", a.word, "name", plain(name), "who", d.cfg.Principal(ctx), "from", r.RemoteAddr)
		result := flash{Tone: "good", Text: done}
		if err != nil {
			log.WarnContext(ctx, "a manual action failed", "err", err)
			result = flash{Tone: "bad", Text: sentence(err.Error()), Hint: millrace.Hint(err)}
		} else {
			log.InfoContext(ctx, "a manual action", "done", done)
		}
		if _, err := d.cfg.Survey.Refresh(ctx); err != nil {
			d.cfg.Logger.WarnContext(ctx, "no survey after an action", "err", err)
		}
		setFlash(w, r, d.link(), result)
		http.Redirect(w, r, returning(a.back(name), r.PostFormValue("view")), http.StatusSeeOther) //nolint:gosec // the path is ours; the form adds parameters only
	}
}

// returning adds the view of the reader to the path of a page.
func returning(path, view string) string {
	values, err := url.ParseQuery(view)
	if err != nil || len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

var errForm = &millrace.Error{
	Code:    "bad_form",
	Message: "the form is invalid",
	Hint:    "Reload the page, and select fewer rows.",
}

// confirmed checks that the form has the name of the structure.
func confirmed(name string, r *http.Request) error {
	if typed := r.PostFormValue("confirm"); typed != name && typed != plain(name) {
		return errConfirm
	}
	return nil
}

// picked returns the selected rows of a list.
func picked(r *http.Request) ([]string, error) {
	var all []string
	for _, part := range r.PostForm["pick"] {
		name, ok := untoken(part)
		if !ok {
			return nil, errForm
		}
		all = append(all, name)
	}
	if len(all) == 0 {
		return nil, errNoChoice
	}
	return all, nil
}

var errNoChoice = &millrace.Error{
	Code:    "bad_argument",
	Message: "nothing was done: nothing was selected",
	Hint:    "Select some rows of the list first.",
}

// some describes the result of an action on n of the selected rows.
func some(n, of int, thing, done, otherwise string) string {
	text := fmt.Sprintf("%s %s.", readable.Count(n, thing), done)
	if n < of {
		text += fmt.Sprintf(" %s %s.", readable.Number(of-n), otherwise)
	}
	return text
}

// notNumber reports a value of a form that is not a number.
func notNumber(what, text string) error {
	return errForm.Errorf("%s is not a number: %q", what, plain(cut(text, 40)))
}

// request is an action as a page offers it: a button, and a dialog that explains the
// consequences.
type request struct {
	ID      string // of the dialog
	Open    string // the label of the button that opens it
	Title   string // a question
	Text    string // the consequences
	Path    string // of the form
	Verb    string // the label of the button that does it
	Danger  bool   // cannot be undone
	Confirm string // the name to type; empty for none
	Fields  []field
	Leaves  bool // leads to another page
	Chosen  bool // applies to the selected rows
}

// field is a number in a dialog.
type field struct {
	Name     string
	Label    string
	Value    int
	Min, Max int
}
