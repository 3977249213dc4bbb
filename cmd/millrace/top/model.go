package top

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/survey"
)

// clockInterval is how often the clock of the model moves.
const clockInterval = 250 * time.Millisecond

// intervals are those that + and - choose from.
var intervals = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// The messages of the model, besides those of the terminal.
type (
	ticked time.Time
	looked struct{ view *survey.View }
	acted  struct {
		action action
		err    error
	}
)

// page is one of the lists.
type page int

// Pages. The tenants are those of a queue, and the tenant is one of them.
const (
	queues page = iota
	icks
	readers
	leases
	servers
	tenants
	tenant
)

// tabs are the pages that have a key of their own.
var tabs = []struct {
	page page
	name string
}{{queues, "queues"}, {icks, "icks"}, {readers, "readers"}, {leases, "leases"}, {servers, "servers"}}

// list is how a page is shown.
type list struct {
	sort     int    // the column
	inverted bool   // the least first
	filter   string // a text that a row has to contain
	selected string // the row
	place    int    // of that row, for when it is gone
	first    int    // the row at the top of the screen
}

// model is the state of the screen.
type model struct {
	source   source
	readOnly bool
	interval time.Duration

	width, height int
	now           time.Time
	started       time.Time

	looking bool
	fresh   bool      // the next look lists names
	began   time.Time // of the last look
	due     time.Time // of the next

	view   *survey.View
	found  map[string][]diagnosis.Finding // the faults of a queue, by its name
	counts map[subject]count
	rates  map[subject]rate

	page   page
	lists  map[page]*list
	queue  string // of the tenants
	tenant string

	typing   bool // text for the filter
	help     bool
	question *action
	acting   bool
	said     string // the outcome of the last action
	failed   bool   // it was an error
}

func newModel(s source, now time.Time, interval time.Duration, readOnly bool) *model {
	m := &model{
		source: s, readOnly: readOnly, interval: interval, width: 80, height: 24, now: now, started: now, fresh: true,
		view: &survey.View{}, lists: map[page]*list{},
	}
	for p := queues; p <= tenant; p++ {
		m.lists[p] = &list{sort: firstSort[p]}
	}
	return m
}

// Init begins the clock and the first look.
func (m *model) Init() tea.Cmd { return tea.Batch(clock(), m.look()) }

func clock() tea.Cmd {
	return tea.Tick(clockInterval, func(t time.Time) tea.Msg { return ticked(t) })
}

// look begins a look, unless one is under way.
func (m *model) look() tea.Cmd {
	if m.looking {
		return nil
	}
	source, fresh := m.source, m.fresh
	m.looking, m.fresh, m.began = true, false, m.now
	return func() tea.Msg { return looked{source.look(fresh)} }
}

// Update is the next state.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case ticked:
		m.now = time.Time(msg)
		next = clock()
		if !m.looking && !m.now.Before(m.due) {
			next = tea.Batch(next, m.look())
		}
	case looked:
		next = m.see(msg.view)
	case acted:
		next = m.report(msg)
	case tea.KeyPressMsg:
		next = m.press(msg)
	}
	m.scroll()
	return m, next
}

// see takes the numbers of a look. One without an answer has the numbers of the look before.
func (m *model) see(v *survey.View) tea.Cmd {
	m.looking = false
	took := m.now.Sub(m.began)
	m.due = m.began.Add(max(m.interval, 2*took))
	if !v.At.Equal(m.view.At) {
		next := counts(v)
		m.rates, m.counts = rates(m.counts, next), next
	}
	m.view, m.found = v, make(map[string][]diagnosis.Finding, len(v.Queues)) // once a look, and not with each key
	for _, s := range v.Queues {
		m.found[s.Name] = diagnosis.OfQueue(s)
	}
	if m.fresh { // asked for during the look
		return m.look()
	}
	return nil
}

// report shows how an action ended, and looks at its effect.
func (m *model) report(a acted) tea.Cmd {
	m.acting, m.failed = false, a.err != nil
	if a.err == nil {
		m.said = a.action.done()
	} else {
		m.said = a.action.target() + ": " + a.err.Error()
		if hint := millrace.Hint(a.err); hint != "" {
			m.said += ". " + hint
		}
	}
	m.fresh = true
	return m.look()
}

// silent returns for how long there was no answer, and 0 if there is one.
func (m *model) silent() time.Duration {
	since := m.view.At
	if since.IsZero() {
		since = m.started
	}
	if m.view.Away() != nil || m.looking && m.now.Sub(m.began) >= finding.NoAnswerAge {
		return max(0, m.now.Sub(since))
	}
	return 0
}

// stats returns the queue whose tenants are shown, or nil if it is gone.
func (m *model) stats() *fairqueue.Stats {
	i := slices.IndexFunc(m.view.Queues, func(s fairqueue.Stats) bool { return s.Name == m.queue })
	if i < 0 {
		return nil
	}
	return &m.view.Queues[i]
}

// flow returns the tenant that is shown, or nil if it has no messages.
func (m *model) flow() *queuestats.Flow {
	s := m.stats()
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Flows, func(f queuestats.Flow) bool { return f.Tenant == m.tenant && f.Stream < 0 })
	if i < 0 {
		return nil
	}
	return &s.Flows[i]
}

// scroll finds the selected row again, and keeps it on the screen.
func (m *model) scroll() {
	l, rows, fit := m.lists[m.page], m.rows(), m.space()
	if i := slices.IndexFunc(rows, func(r row) bool { return r.id == l.selected }); i >= 0 {
		l.place = i
	}
	m.choose(l, rows, l.place)
	l.first = min(l.first, l.place, max(0, len(rows)-fit))
	l.first = max(l.first, l.place-fit+1, 0)
}

// choose selects the row at a place, or the one next to it.
func (m *model) choose(l *list, rows []row, place int) {
	l.place = max(0, min(place, len(rows)-1))
	if len(rows) > 0 {
		l.selected = rows[l.place].id
	}
}
