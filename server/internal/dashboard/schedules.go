package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/schedule"
)

// scheduleList is the page of the schedules of all queues, or of one.
type scheduleList struct {
	heading

	Surveyed bool
	Queue    string // empty for all
	Heads    []columnHead
	Rows     []scheduleRow
	More     int    // schedules that are not listed
	New      string // path of the form
}

// scheduleRow is a schedule of the list.
type scheduleRow struct {
	survey.Schedule

	Path  string
	Words string // when it ticks
	Zone  string // empty for an interval
	In    string // until the next tick: "in 5m", "due for 3m"; empty if paused
	Local string // the next tick in Zone; empty without one
}

func (d *Dashboard) newScheduleRow(s survey.Schedule) scheduleRow {
	row := scheduleRow{
		Schedule: s, Path: d.link("queues", s.Queue, "schedules", s.Name),
		Words: ops.InWords(s.Spec), Zone: ops.Zone(s.Spec),
	}
	if s.Err != nil {
		row.Words = sentence(s.Err.Error())
	}
	if !s.Paused && !s.Next.IsZero() {
		row.In = until(s.At, s.Next)
		if s.Err == nil && row.Zone != "" {
			row.Local = tickRows(ops.OfTicks(s.Spec, s.At, s.Next, 1))[0].Local
		}
	}
	return row
}

// until writes how far away an instant is.
func until(now, at time.Time) string {
	if at.Before(now) {
		return "due for " + readable.Duration(now.Sub(at).Round(time.Second))
	}
	return "in " + readable.Duration(at.Sub(now).Round(time.Second))
}

var scheduleColumns = []listColumn[scheduleRow]{
	{"name", "Schedule", false, false, func(a, b scheduleRow) int { return strings.Compare(a.Name, b.Name) }},
	{"queue", "Queue", false, false, func(a, b scheduleRow) int { return strings.Compare(a.Queue, b.Queue) }},
	{"when", "When", false, false, nil},
	{"next", "Next", false, false, func(a, b scheduleRow) int { return a.Next.Compare(b.Next) }},
	{"last", "Last", false, false, func(a, b scheduleRow) int { return a.Last.Compare(b.Last) }},
	{"ticks", "Ticks", true, false, func(a, b scheduleRow) int { return cmp.Compare(a.Ticks, b.Ticks) }},
	{"missed", "Missed", true, false, func(a, b scheduleRow) int { return cmp.Compare(a.MissedTicks, b.MissedTicks) }},
}

func (d *Dashboard) schedules(a *asked) (scene, error) {
	asked := a.URL.Query()
	queue := asked.Get("queue")
	return func(v *survey.View) body {
		l := scheduleList{
			heading: heading{Title: "Schedules"}, Surveyed: !v.Named.IsZero(), Queue: queue,
			New: query(d.link("schedules", "new"), "queue", queue),
		}
		for _, q := range v.Queues {
			if queue == "" || q.Name == queue {
				l.More += q.Schedules
			}
		}
		for _, s := range v.Schedules {
			if queue == "" || s.Queue == queue {
				l.Rows = append(l.Rows, d.newScheduleRow(s))
			}
		}
		l.More = max(0, l.More-len(l.Rows))
		l.Heads = sortRows(asked, d.link("schedules"), l.Rows, scheduleColumns)
		return l
	}, nil
}

// schedulePage is the page of one schedule.
type schedulePage struct {
	heading

	scheduleRow
	How      presence
	Missed   string // the policy
	Ticks    []tickRow
	Shown    preview // of the body
	Fields   []header
	LastPath string // of the last message; empty if it is not there
	Controls []dialog
}

// tickRow is a tick that will come.
type tickRow struct {
	At      time.Time
	Local   string // in its zone
	Changed string // the offset from UTC, if it is another one than before
}

// missedWords describe the policies.
var missedWords = map[schedule.Missed]string{
	schedule.Once: "one message for all missed ticks", schedule.Skip: "no message for missed ticks", schedule.All: "one message for each missed tick",
}

// shownTicks is how many ticks the page of a schedule shows, and previewTicks the form.
const (
	shownTicks   = 10
	previewTicks = 5
)

func (d *Dashboard) schedule(a *asked) (scene, error) {
	queue, err := a.name()
	if err != nil {
		return nil, err
	}
	name, ok := untoken(a.PathValue("schedule"))
	if !ok {
		return nil, errNoPage
	}
	q, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	find, err := follow(d, a, survey.Queue, name, func(v *survey.View) []survey.Schedule {
		return slices.DeleteFunc(slices.Clone(v.Schedules), func(s survey.Schedule) bool { return s.Queue != queue })
	}, func(s survey.Schedule) string { return s.Name }, func(ctx context.Context) (survey.Schedule, error) {
		s, err := q.Schedules().Get(ctx, name)
		if s.Name != "" {
			return survey.Schedule{Queue: queue, At: time.Now(), ScheduleState: s, Err: err}, nil
		}
		return survey.Schedule{}, err
	})
	if err != nil {
		return nil, err
	}
	last := ""
	if s, _ := find(d.cfg.Survey.View()); !a.live && s.LastID != "" {
		last = d.messagePath(a.Context(), q, s.Draft.Tenant, s.LastID)
	}
	return func(v *survey.View) body {
		s, how := find(v)
		p := schedulePage{
			heading: heading{Title: plain(name)}, scheduleRow: d.newScheduleRow(s), How: how, LastPath: last,
			Missed: missedWords[s.Missed], Shown: newPreview(s.Draft.Body), Ticks: nextTicks(s, shownTicks),
		}
		for _, field := range slices.Sorted(maps.Keys(s.Draft.Headers)) {
			p.Fields = append(p.Fields, header{field, s.Draft.Headers[field]})
		}
		toggle := "pause"
		if s.Paused {
			toggle = "resume"
		}
		for _, word := range []string{toggle, "run", "remove"} {
			ask := scheduleActions[word].dialog
			ask.ID, ask.Path = "ask-"+word, d.link("queues", queue, "schedules", name, word)
			p.Controls = append(p.Controls, ask)
		}
		return p
	}, nil
}

// nextTicks returns the ticks of a schedule that come next. A paused one has none.
func nextTicks(s survey.Schedule, n int) []tickRow {
	if s.Paused {
		return nil
	}
	return tickRows(ops.OfTicks(s.Spec, s.At, s.Next, n))
}

func tickRows(ticks ops.Ticks) []tickRow {
	rows := make([]tickRow, len(ticks.Ticks))
	for i, t := range ticks.Ticks {
		local, _ := time.Parse(time.RFC3339, t.Local) // as it was formatted
		rows[i] = tickRow{At: t.At, Local: local.Format("Mon 2006-01-02 15:04:05 -07:00")}
		if t.Changed {
			rows[i].Changed = local.Format("-07:00")
		}
	}
	return rows
}

// messagePath returns the path of a page that lists a message, or "" if it is not among the
// first ones of its tenant in any state.
func (d *Dashboard) messagePath(ctx context.Context, q *fairqueue.Queue, tenant, id string) string {
	for _, state := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Dead} {
		messages, _, err := q.Browse(ctx, fairqueue.BrowseConfig{State: state, Tenant: tenant, Max: 1000})
		if err != nil {
			return ""
		}
		if slices.ContainsFunc(messages, func(m fairqueue.Message) bool { return m.ID == id }) {
			return d.selectionPath(q.Name(), selection{Place: string(state), Tenant: tenant}, "") + "#browser"
		}
	}
	return ""
}

// scheduleActions change one schedule. Their words are the ends of their paths.
var scheduleActions = map[string]action{
	"pause": {dialog{
		Open: "Pause", Title: "Pause this schedule?", Verb: "Pause",
		Text: ops.PauseSchedule.Detail,
	}, onSchedule(ops.PauseSchedule, "The schedule is paused.")},
	"resume": {dialog{
		Open: "Resume", Title: "Resume this schedule?", Verb: "Resume", Text: ops.ResumeSchedule.Detail,
	}, onSchedule(ops.ResumeSchedule, "The schedule is resumed.")},
	"run": {dialog{
		Open: "Run now", Title: "Write the message of this schedule now?", Verb: "Run now",
		Text: "One message is written besides those of the ticks.",
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		doc, err := ops.RunSchedule.Do(ctx, q, f.named())
		return "The message " + doc.ID + " is written.", err
	})},
	"remove": {dialog{
		Open: "Remove", Title: "Remove this schedule?", Verb: "Remove", Danger: true, Leaves: true,
		Text: "It writes no more messages. Messages that it has written stay.",
	}, onSchedule(ops.RemoveSchedule, "The schedule is removed.")},
}

func onSchedule[Out any](o ops.Operation[*fairqueue.Queue, ops.ScheduleName, Out], done string) func(context.Context, *Dashboard, string, form) (string, error) {
	return onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		_, err := o.Do(ctx, q, f.named())
		return done, err
	})
}

// named returns the schedule of the path.
func (f form) named() ops.ScheduleName { return ops.ScheduleName{Schedule: jsontype.Text(f.schedule)} }

// scheduleForm is the page with the form of a new schedule.
type scheduleForm struct {
	heading

	Queue, Name, Every, Cron, Zone, Tenant, Body, Jitter, Missed string

	Words string // of the preview; empty without one
	Ticks []tickRow
	Wrong string
	Hint  string
}

func (d *Dashboard) newSchedule(a *asked) (scene, error) {
	values := a.URL.Query()
	f := scheduleForm{
		heading: heading{Title: "New schedule"},
		Queue:   values.Get("queue"), Name: values.Get("name"), Every: values.Get("every"), Cron: values.Get("cron"), Zone: values.Get("zone"),
		Tenant: values.Get("tenant"), Body: values.Get("body"), Jitter: values.Get("jitter"), Missed: values.Get("missed"),
	}
	if f.Every != "" || f.Cron != "" || f.Zone != "" {
		timing, err := f.timing()
		if err == nil {
			var ticks ops.Ticks
			in := ops.TicksPreview{Timing: timing, TicksMax: ops.TicksMax{Max: previewTicks}}
			if ticks, err = ops.PreviewTicks.Do(a.Context(), ops.Nothing{}, in); err == nil {
				f.Words, f.Ticks = ticks.Words, tickRows(ticks)
			}
		}
		if err != nil {
			f.Wrong, f.Hint = sentence(err.Error()), millrace.Hint(err)
		}
	}
	return func(*survey.View) body { return f }, nil
}

// timing returns when the schedule of the form ticks.
func (f scheduleForm) timing() (t ops.Timing, err error) {
	t.Cron, t.Zone = f.Cron, f.Zone
	t.Every, err = duration(f.Every, "the interval")
	return t, err
}

// duration reads a field that is a duration, or empty.
func duration(text, what string) (d jsontype.Duration, err error) {
	if text == "" {
		return d, nil
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return d, millrace.ErrBadArgument.Errorf("%s is not a duration: %q", what, plain(cut(text, 40))).WithHint("Write it as 90s, 15m or 36h.")
	}
	return d, nil
}

// create serves the form of a new schedule. After an error the form comes back as it was sent.
func (d *Dashboard) create(w http.ResponseWriter, r *http.Request) {
	d.commit(w, r, "schedule.create", "", d.createSchedule, func(f url.Values, done bool) string {
		if done {
			return d.link("queues", f.Get("queue"), "schedules", f.Get("name"))
		}
		body := f.Get("body")
		if len(body) > maxText {
			body = "" // a path is short
		}
		return query(d.link("schedules", "new"), "queue", f.Get("queue"), "name", f.Get("name"), "every", f.Get("every"), "cron", f.Get("cron"),
			"zone", f.Get("zone"), "tenant", f.Get("tenant"), "body", body, "jitter", f.Get("jitter"), "missed", f.Get("missed"))
	})
}

// createSchedule stores the schedule of a form.
func (d *Dashboard) createSchedule(ctx context.Context, f url.Values) (string, error) {
	jitter, err := duration(f.Get("jitter"), "the jitter")
	if err != nil {
		return "", err
	}
	timing, err := scheduleForm{Every: f.Get("every"), Cron: f.Get("cron"), Zone: f.Get("zone")}.timing()
	if err != nil {
		return "", err
	}
	set := ops.ScheduleToSet{ScheduleName: ops.ScheduleName{Schedule: jsontype.Text(f.Get("name"))}, ScheduleDraft: ops.ScheduleDraft{
		Timing: timing, Tenant: jsontype.Text(f.Get("tenant")), Body: jsontype.Text(f.Get("body")), Jitter: jitter, Missed: f.Get("missed"),
	}}
	q, err := fairqueue.New(d.cfg.Client, f.Get("queue"), fairqueue.Config{Logger: d.cfg.Logger})
	if err != nil {
		return "", err
	}
	doc, err := ops.SetSchedule.Do(ctx, q, set)
	return "The schedule ticks " + doc.Words + ".", err
}
