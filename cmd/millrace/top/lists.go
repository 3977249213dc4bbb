package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// column is one column of a list. The first is the name, which gets the remaining width.
type column struct {
	title string
	text  bool // to the left, and sorted from A to Z; numbers begin with the largest
	rank  int  // a narrow screen has those of a lower rank; 0 is always there
}

// columns of the lists.
var columns = map[page][]column{
	queues: {
		{"QUEUE", true, 0}, {"WAITING", false, 0}, {"IN FLIGHT", false, 0}, {"OLDEST", false, 0}, {"IN/S", false, 0}, {"OUT/S", false, 0},
		{"DEAD", false, 1}, {"READERS", false, 0}, {"STATE", true, 0}, {"FLOWS", false, 2}, {"HANDLERS", false, 2}, {"DELAYED", false, 2},
	},
	tenants: {
		{"TENANT", true, 0}, {"WAITING", false, 0}, {"IN FLIGHT", false, 0}, {"HANDLING", false, 0}, {"OLDEST", false, 0},
		{"STATE", true, 0}, {"LIMITS", true, 1},
	},
	icks: {
		{"ICK", true, 0}, {"WAITING", false, 0}, {"RESERVED", false, 0}, {"PARKED", false, 1}, {"OLDEST", false, 0},
		{"NEW/S", false, 0}, {"DONE/S", false, 0}, {"KIND", true, 2},
	},
	readers: {
		{"READER", true, 0}, {"HOST", true, 0}, {"QUEUE", true, 0}, {"HANDLERS", false, 0}, {"IN FLIGHT", false, 0}, {"LAST SEEN", false, 0},
	},
	leases: {
		{"LEASE", true, 0}, {"STATE", true, 0}, {"ENDS IN", false, 0}, {"FENCE", false, 1}, {"HOLDER", true, 1},
	},
	servers: {
		{"SERVER", true, 0}, {"ROLE", true, 0}, {"MEMORY", false, 0}, {"OF", false, 0}, {"COMMANDS/S", false, 0}, {"CLIENTS", false, 1},
		{"EVICTED", false, 1}, {"UPTIME", false, 1}, {"VERSION", true, 2},
	},
}

// firstSort is the column by which a list is sorted at first.
var firstSort = map[page]int{queues: 1, tenants: 1, icks: 1}

// columns returns those of the list that is shown.
func (m *model) columns() []column { return columns[m.page] }

// cell is one value: as it is shown, and as it is sorted.
type cell struct {
	text   string
	number float64
}

// row is a line of a list.
type row struct {
	id       string // the same in each look
	cells    []cell
	severity finding.Severity // of what is wrong with it
	quiet    bool             // nothing happens there
	queue    string           // of a reader
	tenant   string           // of a tenant
	stream   bool             // it is a stream and no tenant
}

func label(text string) cell { return cell{text: text} }

func amount[N ~int | ~int64](n N) cell { return cell{readable.Number(n), float64(n)} }

// length is a duration, or a dash if it is negative.
func length(d time.Duration) cell {
	if d < 0 {
		return cell{"-", -1}
	}
	return cell{readable.Duration(d), d.Seconds()}
}

// age is how old the oldest of n is.
func age(n int, oldest time.Duration) cell {
	if n == 0 {
		return length(-1)
	}
	return length(oldest)
}

func perSecond(rate float64) cell {
	switch {
	case rate < 0:
		return cell{"-", rate}
	case rate < 10 && rate > 0:
		return cell{strconv.FormatFloat(rate, 'f', 1, 64), rate}
	}
	return cell{readable.Number(int64(rate + 0.5)), rate}
}

func size(n int64) cell { return cell{readable.Bytes(n), float64(n)} }

// name is a name as a terminal may show it.
func name(s string) string { return jsontype.Text(s).String() }

// printable replaces characters that would control a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// rows are the lines of the list that is shown, filtered and sorted.
func (m *model) rows() []row {
	var all []row
	switch m.page {
	case queues:
		all = m.queueRows()
	case tenants:
		all = m.tenantRows()
	case icks:
		all = m.ickRows()
	case readers:
		all = m.readerRows()
	case leases:
		all = m.leaseRows()
	case servers:
		all = m.serverRows()
	case tenant:
		return nil // it is no list
	}
	l := m.lists[m.page]
	if want := strings.ToLower(l.filter); want != "" {
		all = slices.DeleteFunc(all, func(r row) bool {
			return !slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), want) })
		})
	}
	byText := m.columns()[l.sort].text
	slices.SortStableFunc(all, func(a, b row) int {
		x, y := a.cells[l.sort], b.cells[l.sort]
		order := cmp.Compare(y.number, x.number)
		if byText {
			order = cmp.Compare(x.text, y.text)
		}
		if l.inverted {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.id, b.id))
	})
	return all
}

func (m *model) rate(kind survey.Kind, name string) rate {
	if r, ok := m.rates[subject{kind, name}]; ok {
		return r
	}
	return rate{unknown, unknown}
}

func (m *model) queueRows() []row {
	all := make([]row, 0, len(m.view.Queues))
	for _, s := range m.view.Queues {
		state, severity := m.stateOf(s)
		r := m.rate(survey.Queue, s.Name)
		all = append(all, row{id: s.Name, severity: severity, quiet: state == "idle", cells: []cell{
			label(name(s.Name)), amount(s.Waiting), amount(s.InFlight), age(s.Waiting, s.OldestAge), perSecond(r.in), perSecond(r.out),
			amount(s.Dead), amount(len(s.Readers)), label(state), amount(s.FlowCount), amount(s.Capacity), amount(s.Delayed),
		}})
	}
	return all
}

// stateOf returns a queue's state in a word: the first thing that is wrong, if something is.
func (m *model) stateOf(s fairqueue.Stats) (string, finding.Severity) {
	if s.Paused {
		return "paused", finding.Warning
	}
	if found := m.found[s.Name]; len(found) > 0 { // the worst comes first
		switch worst := found[0]; worst.Severity { //nolint:exhaustive // a note is no state
		case finding.Critical:
			return "unread", worst.Severity
		case finding.Warning:
			return worst.Code, worst.Severity
		}
	}
	if s.Waiting+s.InFlight == 0 {
		return "idle", finding.OK
	}
	return "busy", finding.OK
}

func (m *model) tenantRows() []row {
	s := m.stats()
	if s == nil {
		return nil
	}
	all, why := make([]row, 0, len(s.Flows)), diagnosis.WhyWaits(*s)
	for _, f := range s.Flows {
		t := ops.OfTenant(f, why(f), s.At)
		r := row{id: strconv.Quote(f.Tenant), tenant: f.Tenant, cells: []cell{
			label(t.String()), amount(f.Waiting), amount(f.InFlight), length(f.Handling), age(f.Waiting, f.OldestAge),
			label(tenantState(t, s.At)), label(t.Limits.String()),
		}}
		switch {
		case f.Stream >= 0:
			r.id, r.stream, r.cells[0] = strconv.Itoa(f.Stream), true, label(fmt.Sprintf("stream %d", f.Stream))
		case t.State == "paused":
			r.severity = finding.Warning
		case f.Waiting+f.InFlight == 0:
			r.quiet = true
		}
		all = append(all, r)
	}
	return all
}

// tenantState returns a tenant's state, and how long it sleeps.
func tenantState(t ops.TenantStats, now time.Time) string {
	if t.Until == nil {
		return t.State
	}
	return t.State + " " + readable.Duration(max(0, t.Until.Sub(now)))
}

func (m *model) ickRows() []row {
	var all []row
	add := func(kind survey.Kind, of string, waiting, reserved, parked int, oldest time.Duration) {
		r := m.rate(kind, of)
		all = append(all, row{id: string(kind) + " " + of, quiet: waiting+reserved+parked == 0, cells: []cell{
			label(name(of)), amount(waiting), amount(reserved), amount(parked), age(waiting, oldest),
			perSecond(r.in), perSecond(r.out), label(string(kind)),
		}})
	}
	for _, k := range m.view.Icks {
		add(survey.Ick, k.Name, k.Waiting.Size, k.Reserved.Size, k.Parked, k.OldestAge)
	}
	for _, c := range m.view.Channels {
		add(survey.Channel, c.Name, c.Waiting, c.Reserved, c.Parked, c.OldestAge)
	}
	return all
}

func (m *model) readerRows() []row {
	var all []row
	for _, s := range m.view.Queues {
		seen := map[string]int{} // replicas may have one name on one host
		for _, r := range s.Readers {
			id := fmt.Sprintf("%q %q %q", s.Name, r.Name, r.Host)
			seen[id]++
			all = append(all, row{id: fmt.Sprintf("%s %d", id, seen[id]), queue: s.Name, quiet: r.InFlight == 0, cells: []cell{
				label(name(r.Name)), label(name(r.Host)), label(name(s.Name)), amount(r.Concurrency), amount(r.InFlight),
				length(max(0, s.At.Sub(r.LastSeen)).Round(100 * time.Millisecond)),
			}})
		}
	}
	return all
}

func (m *model) leaseRows() []row {
	all := make([]row, 0, len(m.view.Leases))
	for _, l := range m.view.Leases {
		state, ends := "free", time.Duration(-1)
		if l.Held {
			state, ends = "held", l.Remaining
		}
		holder := "-"
		if l.Metadata != "" {
			holder = name(l.Metadata)
		}
		all = append(all, row{id: l.Name, quiet: !l.Held, cells: []cell{
			label(name(l.Name)), label(state), length(ends), {strconv.FormatInt(l.Fence, 10), float64(l.Fence)}, label(holder),
		}})
	}
	return all
}

func (m *model) serverRows() []row {
	all := make([]row, 0, len(m.view.Server.Nodes))
	for _, n := range m.view.Server.Nodes {
		most, severity := label("no limit"), finding.OK
		if n.MaxMemory > 0 {
			most = size(n.MaxMemory)
		}
		if finding.NearlyFull(n.Memory, n.MaxMemory, m.view.Fleet != nil) {
			severity = finding.Warning
		}
		all = append(all, row{id: n.Addr, severity: severity, cells: []cell{
			label(printable(n.Addr)), label(printable(n.Role)), size(n.Memory), most, amount(n.Ops), amount(n.Clients),
			amount(n.Evicted), length(n.Uptime), label(printable(n.Version)),
		}})
	}
	return all
}
