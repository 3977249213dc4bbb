package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/server/internal/access"
)

// dialog is an action as a page offers it: a button, and a dialog that explains the
// consequences.
type dialog struct {
	ID      string // on the page
	Open    string // the label of the button that opens it
	Title   string // a question
	Text    string // the consequences
	Path    string // of the form
	Verb    string // the label of the button that does it
	Danger  bool   // cannot be undone
	Typed   bool   // needs the name of the structure
	Confirm string // that name
	Fields  []field
	Leaves  bool   // leads to another page
	Page    string // that it returns to, below the structure's; defaults to the structure's
	Chosen  bool   // applies to the selected rows
	View    string // the query of the page that it returns to, which is sent with it
}

// field is a number in a dialog.
type field struct {
	Name     string
	Label    string
	Value    int
	Min, Max int
}

// action changes a structure. It returns a sentence that reports the change.
type action struct {
	dialog

	do func(ctx context.Context, d *Dashboard, name string, f form) (string, error)
}

// form is a form as the browser sent it: the selected rows, and the fields.
type form struct {
	url.Values

	picked   []string
	schedule string // the schedule of the path, if there is one
	tenant   string // of the path, if there is one
	batch    string // of the path, if there is one
}

// actions are all actions by section and word, which are their path.
var actions = map[string]action{
	"queues/pause": {dialog{
		Open: "Pause", Title: "Pause this queue?", Verb: "Pause",
		Text: ops.PauseQueue.Detail,
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, _ form) (string, error) {
		_, err := ops.PauseQueue.Do(ctx, q, nil)
		return "The queue is paused.", err
	})},
	"queues/resume": {dialog{
		Open: "Resume", Title: "Resume this queue?", Verb: "Resume", Text: ops.ResumeQueue.Detail,
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, _ form) (string, error) {
		_, err := ops.ResumeQueue.Do(ctx, q, nil)
		return "The queue is resumed.", err
	})},
	"queues/resize": {dialog{
		Open: "Resize", Title: "Resize this queue?", Verb: "Resize",
		Text: ops.ResizeQueue.Detail,
	}, onQueue(resize)},
	"queues/delete": {dialog{
		Open: "Delete", Title: "Delete this queue?", Verb: "Delete", Danger: true, Typed: true, Leaves: true,
		Text: "All messages are lost: waiting, in flight, delayed and dead. Stop writers and readers first; the next write creates the queue again.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, _ form) (string, error) {
		doc, err := ops.DeleteQueue.Do(ctx, q, ops.Queue{})
		if err == nil && doc.Deleted == 0 {
			err = millrace.ErrNotFound.Errorf("there is no such queue")
		}
		return fmt.Sprintf("The queue %s is deleted, with its %s.", plain(cut(q.Name(), 100)), readable.Count(doc.Deleted, "key")), err
	})},
	"queues/cancel": {dialog{
		Open: "Cancel", Title: "Cancel the selected messages?", Verb: "Cancel messages", Danger: true, Chosen: true,
		Text: "They are deleted and will not be delivered. A handler that works on one learns it when it next extends its time.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.CancelMessages.Do(ctx, q, ops.Cancel{IDs: f.picked})
		if errors.Is(err, millrace.ErrNotFound) {
			err = nil // the sentence says it
		}
		return f.some(doc.Cancelled, "message", "cancelled", "not there any more"), err
	})},
	"queues/return": {dialog{
		Open: "Hand back", Title: "Hand back the selected messages?", Verb: "Hand back", Chosen: true, Page: "readers",
		Text: "They wait again and another reader may get them at once, also while a handler still works on them: it learns it when it next extends its time. Each counts as a failed attempt, so a message may die of it.",
	}, onQueue(handBack)},
	"queues/retry": {dialog{
		Open: "Retry now", Title: "Retry the selected messages now?", Verb: "Retry now", Chosen: true,
		Text: "A reader may get them at once. Their attempts are kept, so one that fails again is delayed for longer, or dies.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.RetryMessages.Do(ctx, q, ops.RetryChoice{IDs: f.picked})
		return f.some(doc.Retried, "message", "waiting now", "not delayed any more"), err
	})},
	"queues/retry-matching": {dialog{
		Open: "Retry all that match", Verb: "Retry now", Page: "search",
		Text: "A reader may get them at once. Their attempts are kept, so one that fails again is delayed for longer, or dies. Messages that their writer delayed are left.",
	}, onQueue(retryMatching)},
	"queues/retry-failed": {dialog{Page: "failures"}, onQueue(retryMatching)},
	"queues/redrive": {dialog{
		Open: "Redrive", Title: "Redeliver the selected messages?", Verb: "Redrive", Chosen: true,
		Text: "They wait again as if they had never been delivered, and without their deadlines. They may fail again for the same reason.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.RedriveDead.Do(ctx, q, ops.DeadChoice{IDs: f.picked})
		return f.some(doc.Redriven, "message", "waiting again", "not dead any more"), err
	})},
	"queues/purge": {dialog{
		Open: "Purge", Title: "Delete the selected messages?", Verb: "Delete", Danger: true, Typed: true, Chosen: true,
		Text: "They are deleted with their bodies.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.PurgeDead.Do(ctx, q, ops.DeadChoice{IDs: f.picked})
		return f.some(doc.Purged, "message", "deleted", "not dead any more"), err
	})},
	"queues/redrive-matching": {dialog{
		Open: "Redrive all that match", Verb: "Redrive", Page: "search",
		Text: "They wait again as if they had never been delivered, and without their deadlines. They may fail again for the same reason.",
	}, onQueue(redriveMatching)},
	"queues/purge-matching": {dialog{
		Open: "Purge all that match", Verb: "Delete", Danger: true, Typed: true, Page: "search",
		Text: "They are deleted with their bodies.",
	}, onQueue(purgeMatching)},
	"icks/retry": {dialog{
		Open: "Retry", Title: "Retry the selected members?", Verb: "Retry", Chosen: true,
		Text: "Consumers receive them again now. Their attempts are kept, so a member that fails again is parked again.",
	}, onIck(func(ctx context.Context, k *ick.Ick, f form) (string, error) {
		doc, err := ops.RetryParked.Do(ctx, k, ops.ParkedChoice{Members: jsontype.Texts(f.picked)})
		return f.some(doc.Retried, "member", "marked again", "not parked any more"), err
	})},
	"icks/drop": {dialog{
		Open: "Drop", Title: "Delete the selected members?", Verb: "Delete", Danger: true, Typed: true, Chosen: true,
		Text: "Their last change is not processed: downstream data stays out of date until they are marked again.",
	}, onIck(func(ctx context.Context, k *ick.Ick, f form) (string, error) {
		doc, err := ops.DropParked.Do(ctx, k, ops.ParkedChoice{Members: jsontype.Texts(f.picked)})
		return f.some(doc.Dropped, "member", "deleted", "not parked any more"), err
	})},
}

func onQueue(do func(context.Context, *fairqueue.Queue, form) (string, error)) func(context.Context, *Dashboard, string, form) (string, error) {
	return func(ctx context.Context, d *Dashboard, name string, f form) (string, error) {
		q, err := fairqueue.New(d.cfg.Client, name, fairqueue.Config{Logger: d.cfg.Logger})
		if err != nil {
			return "", err
		}
		return do(ctx, q, f)
	}
}

func onIck(do func(context.Context, *ick.Ick, form) (string, error)) func(context.Context, *Dashboard, string, form) (string, error) {
	return func(ctx context.Context, d *Dashboard, name string, f form) (string, error) {
		k, err := ick.New(d.cfg.Client, name, ick.Config{})
		if err != nil {
			return "", err
		}
		return do(ctx, k, f)
	}
}

func resize(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	streams, err := f.number("streams", "the number of streams")
	if err != nil {
		return "", err
	}
	perTenant, err := f.number("per_tenant", "the number of streams per tenant")
	if err != nil {
		return "", err
	}
	if _, err := ops.ResizeQueue.Do(ctx, q, ops.Resize{Streams: streams, PerTenant: perTenant}); err != nil {
		return "", err
	}
	if streams == 0 {
		return "Each tenant is a flow now.", nil
	}
	if perTenant == 0 {
		perTenant = min(streams, 4) // the default
	}
	return fmt.Sprintf("The queue has %s now, and each tenant uses %s of them.", readable.Count(streams, "stream"), readable.Number(perTenant)), nil
}

// dialogs returns dialogs for one structure.
func (d *Dashboard) dialogs(section, name string, words ...string) []dialog {
	all := make([]dialog, len(words))
	for i, word := range words {
		all[i] = actions[section+"/"+word].dialog
		all[i].ID, all[i].Path = "ask-"+word, d.link(section, name, word)
		if all[i].Typed {
			all[i].Confirm = plain(name)
		}
	}
	return all
}

const (
	maxForm       = 1 << 20 // bytes
	formTimeout   = 10 * time.Second
	actionTimeout = 30 * time.Second
)

var (
	errForm = &millrace.Error{
		Code:    "bad_form",
		Message: "the form is invalid",
		Hint:    "Reload the page, and select fewer rows.",
	}
	errSlowForm = &millrace.Error{
		Code:    "slow_form",
		Message: "the form did not arrive in time",
		Hint:    "Send it again, over a faster connection.",
	}
	errConfirm = &millrace.Error{
		Code:    "bad_confirmation",
		Message: "nothing was done: the typed name is a different one",
		Hint:    "Type the name as the page shows it.",
	}
	errNoChoice = &millrace.Error{
		Code:    "bad_argument",
		Message: "nothing was done: nothing was selected",
		Hint:    "Select some rows of the list first.",
	}
)

// act serves an action on a structure, or on a schedule.
func (d *Dashboard) act(section, word string, a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, ok := untoken(r.PathValue("name"))
		schedule, also := untoken(r.PathValue("schedule"))
		if !ok || !also && r.PathValue("schedule") != "" {
			d.refuse(w, r, errNoPage)
			return
		}
		back := d.link(section, name)
		switch {
		case a.Leaves:
			back = d.link(section)
		case a.Page != "":
			back = d.link(section, name, a.Page)
		case schedule != "":
			back = d.link("queues", name, "schedules", schedule)
		}
		d.commit(w, r, strings.TrimSuffix(section, "s")+"."+word, name, func(ctx context.Context, values url.Values) (string, error) {
			f, err := a.read(name, values)
			if err != nil {
				return "", err
			}
			f.schedule = schedule
			return a.do(ctx, d, name, f)
		}, func(values url.Values, _ bool) string {
			if view, err := url.ParseQuery(values.Get("view")); err == nil && len(view) > 0 {
				return back + "?" + view.Encode()
			}
			return back
		})
	}
}

// commit reads a form, runs do, and redirects to a page that shows the result, so that
// reloading the page does not repeat it. The function back returns that page's path.
func (d *Dashboard) commit(w http.ResponseWriter, r *http.Request, what, name string,
	do func(context.Context, url.Values) (string, error), back func(values url.Values, done bool) string,
) {
	result, ok := d.perform(w, r, what, name, do)
	if !ok {
		return
	}
	setFlash(w, r, d.link(), result)
	http.Redirect(w, r, back(r.PostForm, !result.Failed), http.StatusSeeOther)
}

// perform reads a form and runs do. It reports whether the form could be read; else the
// request is refused.
func (d *Dashboard) perform(w http.ResponseWriter, r *http.Request, what, name string,
	do func(context.Context, url.Values) (string, error),
) (flash, bool) {
	if err := access.Of(r.Context()).May(access.Operator); err != nil {
		d.refuse(w, r, err)
		return flash{}, false
	}
	if !d.cfg.Actions {
		d.refuse(w, r, errReadOnly)
		return flash{}, false
	}
	// net/http removes the deadline after the form. Without a connection there is none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		switch _, refused := errors.AsType[*millrace.Error](err); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errSlowForm
		case !refused: // by the service
			err = errForm.Wrap(err)
		}
		d.refuse(w, r, err)
		return flash{}, false
	}

	// An action is finished even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actionTimeout)
	defer cancel()
	var result flash
	var err error
	result.Text, err = do(ctx, r.PostForm)
	log := d.cfg.Logger.With("action", what, "name", plain(name), "who", access.Of(ctx).Name, "from", r.RemoteAddr)
	entry := audit.Entry{ID: rand.Text(), Who: access.Of(ctx).Name, From: r.RemoteAddr, Way: "pages", Action: what, Name: name}
	if err != nil {
		entry.Error = err.Error()
		log.WarnContext(ctx, "a manual action failed", "err", err)
		result = flash{Failed: true, Text: sentence(err.Error()), Hint: millrace.Hint(err)}
	} else {
		entry.Result = result.Text
		log.InfoContext(ctx, "a manual action", "done", result.Text)
	}
	d.audit.Note(ctx, entry)
	if _, err := d.cfg.Survey.Refresh(ctx); err != nil {
		d.cfg.Logger.WarnContext(ctx, "no survey after an action", "err", err)
	}
	return result, true
}

// read checks a form: the name if the action needs it, and the selected rows.
func (a action) read(name string, values url.Values) (form, error) {
	f := form{Values: values}
	if typed := values.Get("confirm"); a.Typed && typed != name && typed != plain(name) {
		return f, errConfirm
	}
	if !a.Chosen {
		return f, nil
	}
	for _, part := range values["pick"] {
		row, ok := untoken(part)
		if !ok {
			return f, errForm
		}
		f.picked = append(f.picked, row)
	}
	if len(f.picked) == 0 {
		return f, errNoChoice
	}
	return f, nil
}

// number returns a field that is a number.
func (f form) number(name, what string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(f.Get(name)))
	if err != nil {
		return 0, errForm.Errorf("%s is not a number: %q", what, plain(cut(f.Get(name), 40)))
	}
	return n, nil
}

// some describes the result of an action on n of the selected rows.
func (f form) some(n int, thing, done, otherwise string) string {
	text := fmt.Sprintf("%s %s.", readable.Count(n, thing), done)
	if left := len(f.picked) - n; left > 0 {
		text += fmt.Sprintf(" %s %s.", readable.Number(left), otherwise)
	}
	return text
}
