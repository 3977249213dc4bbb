package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

const (
	noticeLines = 8  // lines of the screen for each notice
	minName     = 14 // characters of the first column
	gap         = 2  // between columns
	wideScreen  = 120
)

var (
	strong  = ansi.Style{}.Bold()
	faint   = ansi.Style{}.Faint()
	reverse = ansi.Style{}.Reverse(true)
	yellow  = ansi.Style{}.ForegroundColor(ansi.Yellow)
	red     = ansi.Style{}.ForegroundColor(ansi.Red).Bold()
)

func styled(severity finding.Severity, text string) string {
	switch severity {
	case finding.OK:
	case finding.Note, finding.Warning:
		return yellow.Styled(text)
	case finding.Critical:
		return red.Styled(text)
	}
	return text
}

// View is the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen, v.WindowTitle = true, "millrace top"
	return v
}

// lines are the lines of the screen, none longer than it is wide.
func (m *model) lines() []string {
	lines := m.above()
	switch {
	case m.help:
		lines = append(lines, helpLines...)
	case m.page == tenant:
		lines = append(lines, m.card()...)
	default:
		lines = append(lines, m.table()...)
	}
	most := max(1, m.height-1)
	lines = lines[:min(len(lines), most)]
	for len(lines) < most {
		lines = append(lines, "")
	}
	lines = append(lines, m.prompt())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return lines
}

// above are the lines above the list.
func (m *model) above() []string {
	lines := []string{m.status()}
	all, most := m.notices(), max(1, m.height/noticeLines)
	for i, n := range all {
		if more := len(all) - i; i == most-1 && more > 1 {
			lines = append(lines, styled(n.Severity, fmt.Sprintf("! %d more notices", more)))
			break
		}
		first, rest, _ := strings.Cut(ansi.Wordwrap("! "+n.Text, m.width, ""), "\n")
		lines = append(lines, styled(n.Severity, first))
		if rest != "" { // at its end it says for how long the others wait
			lines = append(lines, styled(n.Severity, "  "+strings.ReplaceAll(rest, "\n", " ")))
		}
	}
	return append(lines, m.tabs(), m.heading())
}

// space is how many rows of a list are on the screen.
func (m *model) space() int {
	const others = 2 // the titles of the columns and the prompt
	return max(1, m.height-len(m.above())-others)
}

// status is the first line: how Redis is.
func (m *model) status() string {
	every := " · every " + readable.Duration(m.interval)
	if m.readOnly {
		every += " · read-only"
	}
	silent := m.silent()
	switch away := m.view.Away(); {
	case silent > 0 && away != nil:
		return red.Styled(fmt.Sprintf("no answer for %s", readable.Duration(silent.Truncate(time.Second)))) + every + " · " + printable(away.Error())
	case silent > 0:
		return red.Styled(fmt.Sprintf("no answer for %s", readable.Duration(silent.Truncate(time.Second)))) + every
	case m.view.At.IsZero():
		return strong.Styled("millrace top") + " · asking Redis"
	}
	s := m.view.Server
	what := fmt.Sprintf(" · %s", readable.Count(len(s.Nodes), "server"))
	if len(s.Nodes) == 1 {
		what = " · " + printable(s.Nodes[0].Version)
	}
	return strong.Styled("millrace top") + what + fmt.Sprintf(" · %s · %s commands/s", readable.Bytes(s.Memory()), readable.Number(s.Ops())) +
		every + " · " + m.view.At.Format(time.TimeOnly)
}

// tabs is the line of pages.
func (m *model) tabs() string {
	readerCount := 0
	for _, s := range m.view.Queues {
		readerCount += len(s.Readers)
	}
	counts := map[page]int{
		queues: len(m.view.Queues), icks: len(m.view.Icks) + len(m.view.Channels), readers: readerCount,
		leases: len(m.view.Leases), servers: len(m.view.Server.Nodes),
	}
	var words []string
	for i, t := range tabs {
		word := fmt.Sprintf(" %d %s %d ", i+1, t.name, counts[t.page])
		if t.page == m.page || t.page == queues && m.page >= tenants {
			word = reverse.Styled(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// heading is the line above the list that names its queue and its filter.
func (m *model) heading() string {
	l := m.lists[m.page]
	text := ""
	if m.page >= tenants {
		text = "queue " + name(m.queue)
		if s := m.stats(); s == nil {
			text += ": it is gone, or not read yet"
		} else {
			state, _ := m.stateOf(*s)
			text += fmt.Sprintf(" (%s): %s waiting, %s in flight, %s, %s", state, readable.Number(s.Waiting), readable.Number(s.InFlight),
				readable.Count(len(s.Readers), "reader"), readable.Count(s.Capacity, "handler"))
			if more := s.FlowCount - len(s.Flows); more > 0 {
				text += ", " + readable.Count(more, "flow") + " not shown"
			}
		}
	}
	if l.filter != "" && !m.typing {
		if text != "" {
			text += " · "
		}
		text += "only rows with " + name(l.filter)
	}
	return strong.Styled(text)
}

// table are the titles of the columns and the rows.
func (m *model) table() []string {
	l, rows, all := m.lists[m.page], m.rows(), m.columns()
	shown, widths := m.layout(all, rows)
	titles := make([]string, 0, len(shown))
	for i, c := range shown {
		titles = append(titles, fit(title(all[c], c == l.sort, l.inverted), widths[i], all[c].text))
	}
	lines := []string{strong.Styled(strings.Join(titles, strings.Repeat(" ", gap)))}
	if len(rows) == 0 {
		return append(lines, faint.Styled(m.empty()))
	}
	for i := l.first; i < min(len(rows), l.first+m.space()); i++ {
		cells := make([]string, 0, len(shown))
		for j, c := range shown {
			cells = append(cells, fit(rows[i].cells[c].text, widths[j], all[c].text))
		}
		line := strings.Join(cells, strings.Repeat(" ", gap))
		switch {
		case i == l.place:
			line = reverse.Styled(line)
		case rows[i].quiet:
			line = faint.Styled(line)
		default:
			line = styled(rows[i].severity, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// title is the title of a column. The one that sorts has an arrow.
func title(c column, sorts, inverted bool) string {
	switch {
	case !sorts:
		return c.title
	case c.text != inverted:
		return c.title + "↑"
	}
	return c.title + "↓"
}

// empty says why a list has no rows.
func (m *model) empty() string {
	switch {
	case m.lists[m.page].filter != "":
		return "nothing matches the filter"
	case m.view.Named.IsZero():
		return "waiting for the names of all structures"
	case m.page == tenants:
		return "no tenant has messages"
	}
	return "there are none"
}

// layout chooses the columns that fit on the screen, and their widths. The column that sorts
// is one of them. The first column gets the remaining width.
func (m *model) layout(all []column, rows []row) (shown, widths []int) {
	need := make([]int, len(all))
	for c := range all {
		need[c] = ansi.StringWidth(all[c].title)
		if c == m.lists[m.page].sort {
			need[c]++ // the arrow
		}
		for _, r := range rows {
			need[c] = max(need[c], min(ansi.StringWidth(r.cells[c].text), max(minName, m.width/4)))
		}
	}
	longest := need[0]
	need[0] = min(longest, minName)
	for most := 2; most >= 0; most-- {
		shown, widths = nil, nil
		left := m.width
		for c := range all {
			if all[c].rank <= most || c == m.lists[m.page].sort {
				shown, widths = append(shown, c), append(widths, need[c])
				left -= need[c] + gap
			}
		}
		left += gap
		if left >= 0 || most == 0 {
			for _, r := range rows {
				longest = max(longest, ansi.StringWidth(r.cells[0].text))
			}
			widths[0] += max(0, min(left, longest-need[0]))
			break
		}
	}
	return shown, widths
}

// fit makes a text as wide as its column.
func fit(s string, width int, left bool) string {
	s = ansi.Truncate(s, width, "…")
	space := strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
	if left {
		return s + space
	}
	return space + s
}

// card is all about one tenant.
func (m *model) card() []string {
	of := jsontype.Text(m.tenant).String()
	f := m.flow()
	if f == nil {
		return []string{strong.Styled(of), "", "no messages wait or are in flight now; p and r still pause and resume it"}
	}
	at, why := m.stats().At, diagnosis.WhyWaits(*m.stats())(*f)
	t := ops.OfTenant(*f, why, at)
	lines := []string{strong.Styled(of), ""}
	for _, l := range [][2]string{
		{"waiting", readable.Number(f.Waiting)},
		{"in flight", readable.Number(f.InFlight)},
		{"oldest", age(f.Waiting, f.OldestAge).text},
		{"handling", length(f.Handling).text},
		{"state", tenantState(t, at)},
		{"waits for", why.Words()},
		{"limits", t.Limits.String()},
	} {
		lines = append(lines, fmt.Sprintf("%-10s  %s", l[0], l[1]))
	}
	return lines
}

// prompt is the last line: a question, an answer, or the keys.
func (m *model) prompt() string {
	switch {
	case m.question != nil:
		verb, effect := "Pause", "its messages wait until it is resumed"
		if m.question.resume {
			verb, effect = "Resume", "its messages are delivered again"
		}
		target := ansi.Truncate(m.question.target(), max(minName, m.width-len("Resume ? [y/N]")), "…")
		return reverse.Styled(fmt.Sprintf("%s %s? [y/N]", verb, target)) + " " + effect
	case m.typing:
		return "filter: " + m.lists[m.page].filter + "▏" + faint.Styled("  enter keeps it, esc clears it")
	case m.acting:
		return "asking Redis"
	case m.said != "" && m.failed:
		return red.Styled(printable(m.said))
	case m.said != "":
		return strong.Styled(printable(m.said))
	}
	keys := "? help  q quit  s sort  / filter  "
	switch m.page { //nolint:exhaustive // the others have no keys of their own
	case queues, tenants:
		keys += "enter open  p pause  r resume  "
	case tenant:
		keys += "p pause  r resume  "
	}
	if m.page >= tenants {
		keys += "esc back  "
	}
	if m.width >= wideScreen {
		keys += "i invert  + - interval  tab page  space look now"
	}
	return faint.Styled(keys)
}

var helpLines = []string{
	"",
	"tab 1-5       another page",
	"up down       select; also j k, page up, page down, home, end",
	"enter         open a queue, then a tenant",
	"esc           clear the filter, or go back",
	"s S           sort by the next column, or the one before; i inverts",
	"/             show only rows with some text",
	"p             pause the selected queue or tenant, after a question",
	"r             resume it, after a question; it ends a throttle, too",
	"+ -           a longer or a shorter interval between looks at Redis",
	"space         look now, also for new structures",
	"q             quit",
	"",
	"IN/S and OUT/S are written and acknowledged messages a second, between two looks.",
	"HANDLING is the mean time of a tenant's last handlers.",
	"",
	"Any key closes this.",
}
