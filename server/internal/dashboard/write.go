package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/access"
)

// writePage is the form of a new message, as it was typed.
type writePage struct {
	heading

	Queue, Tenant, Body, Headers, Delay, Priority, Cost string
}

func newWritePage(queue string, typed url.Values) writePage {
	return writePage{
		heading: heading{Title: "Write to " + plain(queue)}, Queue: queue,
		Tenant: typed.Get("tenant"), Body: typed.Get("body"),
		Headers: typed.Get("headers"), Delay: typed.Get("delay"), Priority: typed.Get("priority"), Cost: typed.Get("cost"),
	}
}

func (d *Dashboard) newMessage(a *asked) (scene, error) {
	queue, err := a.name()
	if err != nil {
		return nil, err
	}
	if _, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{}); err != nil {
		return nil, err
	}
	p := newWritePage(queue, a.URL.Query())
	return func(*survey.View) body { return p }, nil
}

// writeMessage serves the form of a new message. After an error the answer is the form as it
// was sent: a body may be too long for a path.
func (d *Dashboard) writeMessage(w http.ResponseWriter, r *http.Request) {
	queue, ok := untoken(r.PathValue("name"))
	if !ok {
		d.refuse(w, r, errNoPage)
		return
	}
	result, ok := d.perform(w, r, "queue.write", queue, func(ctx context.Context, values url.Values) (string, error) {
		draft, err := newWritePage(queue, values).draft()
		if err != nil {
			return "", err
		}
		q, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{Logger: d.cfg.Logger})
		if err != nil {
			return "", err
		}
		written, err := ops.WriteMessage.Do(ctx, q, draft)
		return "The message " + written.ID + " is written.", err
	})
	switch {
	case !ok: // refused
	case !result.Failed:
		setFlash(w, r, d.link(), result)
		http.Redirect(w, r, d.link("queues", queue), http.StatusSeeOther)
	default:
		p := newWritePage(queue, r.PostForm)
		f := d.frame(access.Of(r.Context()), page{section: "Queues"}, d.cfg.Survey.View(), func(*survey.View) body { return p })
		f.Flash = &result
		d.write(w, r, http.StatusBadRequest, "write", f)
	}
}

// draft returns the message of the form.
func (p writePage) draft() (ops.Write, error) {
	draft := ops.Write{Draft: ops.Draft{Tenant: jsontype.Text(p.Tenant), Body: jsontype.Text(p.Body), Headers: map[string]jsontype.Text{}}}
	delay, err := duration(strings.TrimSpace(p.Delay), "the delay")
	if err != nil {
		return draft, err
	}
	draft.Delay = jsontype.Duration{Duration: delay.Duration}
	for name, number := range map[string]struct {
		typed string
		into  *int
	}{"priority": {p.Priority, &draft.Priority}, "cost": {p.Cost, &draft.Cost}} {
		if text := strings.TrimSpace(number.typed); text != "" {
			if *number.into, err = strconv.Atoi(text); err != nil {
				return draft, millrace.ErrBadArgument.Errorf("the %s is not a number: %q", name, plain(cut(text, 40)))
			}
		}
	}
	for line := range strings.Lines(p.Headers) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return draft, millrace.ErrBadArgument.Errorf("not a header: %q", plain(cut(line, 40))).WithHint("Write one header a line, as name: value.")
		}
		if _, twice := draft.Headers[name]; twice {
			return draft, millrace.ErrBadArgument.Errorf("the header %q is there twice", plain(cut(name, 40)))
		}
		draft.Headers[name] = jsontype.Text(strings.TrimSpace(value))
	}
	return draft, nil
}
