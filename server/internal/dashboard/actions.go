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
	// mostForm is how large a form may be, in bytes.
	mostForm = 1 << 20

	// formPatience is how long a client may take over a form.
	formPatience = 10 * time.Second

	// actPatience is how long an action may take.
	actPatience = 30 * time.Second
)

// errConfirm means that the name that was typed is not that of what was to be
// removed.
var errConfirm = &millrace.Error{
	Code:    "bad_confirmation",
	Message: "nothing was done: the name that was typed is another one",
	Hint:    "Type the name as the page shows it.",
}

// action changes one structure, whose name is in the path, as a form says. What it
// returns says what was done, in a whole sentence.
type action struct {
	path string // of the request, as a pattern of http.ServeMux
	word string // for the log
	do   func(ctx context.Context, name string, r *http.Request) (string, error)
	back func(name string) string // the page to which its author returns
}

// act serves an action: it does it, and sends its author to a page that says what
// came of it. So the page may be loaded again without doing it again.
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
		// Where there is a connection. When the form has come, net/http takes the deadline back.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formPatience))
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		if err := r.ParseForm(); err != nil {
			d.refuse(w, r, errForm.Wrap(err))
			return
		}
		// What was begun is finished, also if its author does not wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actPatience)
		defer cancel()
		done, err := a.do(ctx, name, r)
		log := d.cfg.Logger.With("action", a.word, "name", plain(name), "who", d.cfg.Principal(ctx), "from", r.RemoteAddr)
		said := flash{Tone: "good", Text: done}
		if err != nil {
			log.WarnContext(ctx, "an action by hand failed", "err", err)
			said = flash{Tone: "bad", Text: sentence(err.Error()), Hint: millrace.Hint(err)}
		} else {
			log.InfoContext(ctx, "an action by hand", "done", done)
		}
		if _, err := d.cfg.Survey.Refresh(ctx); err != nil {
			d.cfg.Logger.WarnContext(ctx, "no look after an action", "err", err)
		}
		giveFlash(w, r, d.link(), said)
		http.Redirect(w, r, returning(a.back(name), r.PostFormValue("view")), http.StatusSeeOther) //nolint:gosec // the path is ours; of the form come parameters only
	}
}

// returning adds to a page's path what its reader was looking at there.
func returning(path, view string) string {
	values, err := url.ParseQuery(view)
	if err != nil || len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// errForm means that a form cannot be read.
var errForm = &millrace.Error{
	Code:    "bad_form",
	Message: "the form cannot be read",
	Hint:    "Load the page again, and choose fewer at once.",
}

// confirmed refuses unless the form has the name of what is to be removed.
func confirmed(name string, r *http.Request) error {
	if typed := r.PostFormValue("confirm"); typed != name && typed != plain(name) {
		return errConfirm
	}
	return nil
}

// picked returns what was chosen in a list.
func picked(r *http.Request) ([]string, error) {
	var all []string
	for _, part := range r.PostForm["pick"] {
		one, ok := untoken(part)
		if !ok {
			return nil, errForm
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errNoChoice
	}
	return all, nil
}

// errNoChoice means that nothing was chosen.
var errNoChoice = &millrace.Error{
	Code:    "bad_argument",
	Message: "nothing was done: nothing was chosen",
	Hint:    "Choose some in the list first.",
}

// some says how many of those that were chosen something was done to.
func some(n, of int, thing, done, otherwise string) string {
	text := fmt.Sprintf("%s %s.", readable.Count(n, thing), done)
	if n < of {
		text += fmt.Sprintf(" %s %s.", readable.Number(of-n), otherwise)
	}
	return text
}

// wrong reports a value of a form that is no number.
func wrong(what, text string) error {
	return errForm.Errorf("%s is no number: %q", what, plain(cut(text, 40)))
}
