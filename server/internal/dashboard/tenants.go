package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// tenantPage is the page of one tenant of a queue, or of the default limits.
type tenantPage struct {
	heading

	Tenant   string
	Queue    string
	Path     string
	Flow     flowRow
	Listed   bool // it has messages, or waits for something
	How      presence
	Default  bool
	Source   string // where the limits come from
	Limits   limitsForm
	Message  string // path of its waiting messages
	Dead     string // path of its dead ones
	Controls []dialog
}

// limitsForm is the form of limits, as it was typed. A field is empty if the default decides.
type limitsForm struct {
	Weight, InFlight, Share, Rate, Burst, Waiting string

	Placeholders map[string]string // the values that apply where fields are empty, by field
	Paused       bool
	Own          bool
}

func newLimitsForm(l fairqueue.TenantLimits) limitsForm {
	f := limitsForm{Paused: l.Paused, Own: l.Own != (fairqueue.OwnLimits{}), Placeholders: map[string]string{}}
	word := func(value float64, none string) string {
		if value == 0 {
			return none
		}
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	rate := func(none string) string {
		if l.Rate == 0 {
			return none
		}
		return jsontype.Rate(l.Rate).String()
	}
	for name, limit := range map[string]struct {
		own           bool
		field         *string
		applies, text string // where it is not its own, and where it is
	}{
		"weight":    {l.Own.Weight != nil, &f.Weight, word(l.Weight, "1"), word(l.Weight, "1")},
		"in_flight": {l.Own.MaxInFlight != nil, &f.InFlight, word(float64(l.MaxInFlight), "no limit"), strconv.Itoa(l.MaxInFlight)},
		"share":     {l.Own.MaxShare != nil, &f.Share, word(100*l.MaxShare, "no limit"), word(100*l.MaxShare, "0")},
		"rate":      {l.Own.Rate != nil, &f.Rate, rate("no limit"), rate("0")},
		"burst":     {l.Own.Burst != nil, &f.Burst, word(float64(l.Burst), "a tenth of a second"), strconv.Itoa(l.Burst)},
		"waiting":   {l.Own.MaxWaiting != nil, &f.Waiting, word(float64(l.MaxWaiting), "no limit"), strconv.Itoa(l.MaxWaiting)},
	} {
		f.Placeholders[name] = limit.applies
		if limit.own {
			*limit.field, f.Placeholders[name] = limit.text, "default"
		} else if l.Tenant != "" {
			f.Placeholders[name] += " (default)"
		}
	}
	return f
}

// typed are the fields of the form as they were sent, for the page after an error.
func typed(values url.Values, f limitsForm) limitsForm {
	f.Weight, f.InFlight, f.Share = values.Get("weight"), values.Get("in_flight"), values.Get("share")
	f.Rate, f.Burst, f.Waiting = values.Get("rate"), values.Get("burst"), values.Get("waiting")
	return f
}

// limits returns the limits of the form, and the names of those that are empty, which the default decides.
func (f limitsForm) limits() (l fairqueue.OwnLimits, empty []string, err error) {
	for _, field := range []struct {
		name, text, what string
		to               func(float64)
		whole            bool
	}{
		{"weight", f.Weight, "the weight", func(n float64) { l.Weight = &n }, false},
		{"max_in_flight", f.InFlight, "the number in flight", func(n float64) { l.MaxInFlight = new(int(n)) }, true},
		{"max_share", f.Share, "the share of the handlers", func(n float64) { l.MaxShare = new(n / 100) }, false},
		{"burst", f.Burst, "the burst", func(n float64) { l.Burst = new(int(n)) }, true},
		{"max_waiting", f.Waiting, "the number of waiting messages", func(n float64) { l.MaxWaiting = new(int(n)) }, true},
	} {
		text := strings.TrimSpace(field.text)
		if text == "" {
			empty = append(empty, field.name)
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || field.whole && n != float64(int(n)) {
			return l, nil, errForm.Errorf("%s is not a number: %q", field.what, plain(cut(text, 40))).WithHint("Leave the field empty for the default, or type 0 for no limit.")
		}
		field.to(n)
	}
	text := strings.TrimSpace(f.Rate)
	if text == "" {
		return l, append(empty, "rate"), nil
	}
	var rate jsontype.Rate
	if err := rate.UnmarshalText([]byte(text)); err != nil {
		return l, nil, errForm.Errorf("%s", err).WithHint("Leave the field empty for the default, or type 0 for no limit.")
	}
	l.Rate = new(float64(rate))
	return l, empty, nil
}

// tenantPath is the path of the page of a tenant, or of the default limits.
func (d *Dashboard) tenantPath(queue, tenant string, more ...string) string {
	return d.link(append([]string{"queues", queue, "tenants", tenant}, more...)...)
}

// label is how messages name a tenant.
func label(tenant string) string {
	if tenant == "" {
		return "All other tenants"
	}
	return plain(cut(tenant, 100))
}

func (d *Dashboard) tenant(a *asked) (scene, error) {
	tenant, ok := untoken(a.PathValue("tenant"))
	if !ok {
		return nil, errNoPage
	}
	q, find, err := d.followQueue(a)
	if err != nil {
		return nil, err
	}
	queue := q.Name()
	limits, err := q.Limits().Get(a.Context(), tenant)
	if err != nil {
		return nil, err
	}
	form := newLimitsForm(limits)
	if values := a.URL.Query(); values.Has("again") {
		form = typed(values, form)
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		p := tenantPage{
			heading: heading{Title: label(tenant)}, Tenant: tenant, Queue: queue, Path: d.tenantPath(queue, tenant), How: how,
			Default: tenant == "", Source: source(limits), Limits: form,
		}
		for _, f := range stats.Flows {
			if f.Stream < 0 && f.Tenant == tenant && !p.Default {
				p.Flow, p.Listed = newFlowRow(f, stats, most(stats.Flows), ""), true
			}
		}
		if !p.Default {
			p.Message = d.selectionPath(queue, selection{Place: string(fairqueue.Waiting), Tenant: tenant}, "") + "#browser"
			p.Dead = d.selectionPath(queue, selection{Place: string(fairqueue.Dead), Tenant: tenant}, "") + "#browser"
		}
		stopped := limits.Paused || p.Listed && p.Flow.Stopped
		if !p.Default {
			p.Controls = d.tenantDialogs(queue, tenant, p.Flow.Waiting, stopped)
		}
		return p
	}, nil
}

// source says where limits come from.
func source(l fairqueue.TenantLimits) string {
	switch {
	case l.Tenant == "":
		return "They count for each tenant that has no limits of its own, limit by limit."
	case l.Own != (fairqueue.OwnLimits{}):
		return "It has limits of its own, " + strings.ReplaceAll(strings.Join(ops.OwnNames(l.Own), ", "), "_", " ") + "; the others are the default of the queue."
	case ops.OfLimits(l.Limits).String() == "none":
		return "It has no limits of its own, and the queue has no default that counts for it."
	}
	return "It has no limits of its own: these are the default of the queue."
}

// tenantDialogs are the actions on a tenant.
func (d *Dashboard) tenantDialogs(queue, tenant string, waiting int, stopped bool) []dialog {
	words := []string{"pause", "purge"}
	if stopped {
		words = []string{"resume", "pause", "purge"}
	}
	var all []dialog
	for _, word := range words {
		ask := tenantActions[word].dialog
		ask.ID, ask.Path = "ask-"+word, d.tenantPath(queue, tenant, word)
		if word == "purge" {
			ask.Title = "Delete " + readable.Count(waiting, "waiting message") + " of " + label(tenant) + "?"
			ask.Confirm = label(tenant)
		}
		all = append(all, ask)
	}
	return all
}

// tenantNamed returns the tenant of a path.
func tenantNamed(f form) ops.Tenant { return ops.Tenant{Tenant: jsontype.Text(f.tenant)} }

// tenantActions change one tenant. Their words are the ends of their paths.
var tenantActions = map[string]action{
	"pause": {dialog{
		Open: "Pause", Title: "Pause its messages?", Verb: "Pause",
		Text:   "Its messages wait. Those in flight may be finished, and writing continues. All others go on.",
		Fields: []field{{"minutes", "For so many minutes; 0 until it is resumed", 0, 0, 527040}},
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		minutes := 0
		if f.Has("minutes") {
			var err error
			if minutes, err = f.number("minutes", "the number of minutes"); err != nil {
				return "", err
			}
		}
		d := time.Duration(minutes) * time.Minute
		text := label(f.tenant) + " is paused"
		if d > 0 {
			text += " for " + readable.Duration(d)
		}
		_, err := ops.PauseTenant.Do(ctx, q, ops.TenantPause{Tenant: tenantNamed(f), For: jsontype.Duration{Duration: d}})
		return text + ".", err
	})},
	"resume": {dialog{
		Open: "Resume", Title: "Resume its messages?", Verb: "Resume", Text: "A pause or a throttle ends, and its messages take turns again.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		_, err := ops.ResumeTenant.Do(ctx, q, tenantNamed(f))
		return label(f.tenant) + " is resumed.", err
	})},
	"purge": {dialog{
		Open: "Purge", Verb: "Delete", Danger: true, Typed: true,
		Text: "Messages that wait or are delayed are deleted with their bodies. Those in flight stay, and dead ones.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.PurgeTenant.Do(ctx, q, tenantNamed(f))
		return readable.Count(doc.Purged, "message") + " of " + label(f.tenant) + " deleted.", err
	})},
	"clear": {dialog{}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		_, err := ops.ClearLimits.Do(ctx, q, ops.LimitsClear{Tenant: tenantNamed(f)})
		return "The limits of " + label(f.tenant) + " are removed.", err
	})},
	"limits": {dialog{}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		limits, empty, err := typed(f.Values, limitsForm{}).limits()
		if err == nil {
			err = q.Limits().Set(ctx, f.tenant, limits)
		}
		if err == nil && len(empty) > 0 {
			err = q.Limits().Clear(ctx, f.tenant, empty...)
		}
		return "The limits of " + label(f.tenant) + " are changed.", err
	})},
}

// actOnTenant serves an action on a tenant.
func (d *Dashboard) actOnTenant(word string, a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		queue, ok := untoken(r.PathValue("name"))
		tenant, also := untoken(r.PathValue("tenant"))
		if !ok || !also {
			d.refuse(w, r, errNoPage)
			return
		}
		name := label(tenant)
		d.commit(w, r, "tenant."+word, queue+": "+name, func(ctx context.Context, values url.Values) (string, error) {
			f, err := a.read(name, values)
			if err != nil {
				return "", err
			}
			f.tenant = tenant
			text, err := a.do(ctx, d, queue, f)
			if errors.Is(err, millrace.ErrNotFound) {
				err = millrace.ErrNotFound.Errorf("the queue does not exist yet").WithHint("Write a message first.")
			}
			return text, err
		}, func(values url.Values, done bool) string {
			switch {
			case values.Get("view") == "queue":
				return d.link("queues", queue) + "#flows"
			case values.Get("view") == "failures":
				return d.link("queues", queue, "failures")
			case word == "limits" && !done:
				again := []string{"again", "1"}
				for _, field := range []string{"weight", "in_flight", "share", "rate", "burst", "waiting"} {
					again = append(again, field, cut(values.Get(field), 40))
				}
				return query(d.tenantPath(queue, tenant), again...) + "#limits"
			}
			return d.tenantPath(queue, tenant)
		})
	}
}

// openTenant redirects to the page of a tenant by name, also if no list has it.
func (d *Dashboard) openTenant(w http.ResponseWriter, r *http.Request) {
	queue, ok := untoken(r.PathValue("name"))
	if !ok {
		d.refuse(w, r, errNoPage)
		return
	}
	http.Redirect(w, r, d.tenantPath(queue, r.URL.Query().Get("tenant")), http.StatusSeeOther)
}
