package top

import (
	"slices"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// maxFilter is how long the text of a filter may be, in characters.
const maxFilter = 64

// press carries out a key.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.question != nil:
		return m.answer(key)
	case m.typing:
		m.typeFilter(msg)
		return nil
	case m.help:
		m.help = false // any key
		return nil
	}
	m.said, m.failed = "", false
	switch key {
	case "q":
		return tea.Quit
	case "?", "h":
		m.help = true
	case "space":
		m.fresh = true
		return m.look()
	case "+", "=":
		m.setInterval(1)
	case "-":
		m.setInterval(-1)
	case "p", "r":
		m.ask(key == "r")
	default:
		m.walk(key)
	}
	return nil
}

// walk carries out a key that moves in the lists.
func (m *model) walk(key string) {
	l, rows := m.lists[m.page], m.rows()
	switch key {
	case "up", "k":
		m.choose(l, rows, l.place-1)
	case "down", "j":
		m.choose(l, rows, l.place+1)
	case "pgup":
		m.choose(l, rows, l.place-m.space())
	case "pgdown":
		m.choose(l, rows, l.place+m.space())
	case "home", "g":
		m.choose(l, rows, 0)
	case "end", "G":
		m.choose(l, rows, len(rows)-1)
	case "s", "right":
		m.sortBy(1)
	case "S", "left":
		m.sortBy(-1)
	case "i":
		l.inverted = !l.inverted
	case "/":
		m.typing = m.page != tenant
	case "enter":
		m.enter()
	case "esc", "backspace":
		m.leave()
	case "tab":
		m.turnTo(1)
	case "shift+tab":
		m.turnTo(-1)
	case "1", "2", "3", "4", "5":
		m.page = tabs[key[0]-'1'].page
	}
}

// answer answers the question.
func (m *model) answer(key string) tea.Cmd {
	a := *m.question
	m.question = nil
	if key != "y" && key != "Y" {
		m.said = "nothing was changed"
		return nil
	}
	m.acting = true
	source := m.source
	return func() tea.Msg { return acted{a, source.act(a)} }
}

// ask asks whether to pause or resume the selected row.
func (m *model) ask(resume bool) {
	a := action{queue: m.queue, resume: resume}
	refuse := func(why string) { m.said, m.failed = why, true }
	row, ok := m.selected()
	switch {
	case m.readOnly:
		refuse("refused: this view is read-only; start it without --read-only")
		return
	case m.acting:
		refuse("the last action is still under way")
		return
	case m.page == tenant:
		a.tenant = m.tenant
	case m.page == queues && ok:
		a.queue = row.id
	case m.page == tenants && ok && row.stream:
		refuse("a stream cannot be paused: the flows of this queue are streams; pause the queue")
		return
	case m.page == tenants && ok:
		a.tenant = row.tenant
	default:
		refuse("select a queue or a tenant first")
		return
	}
	m.question = &a
}

// typeFilter changes the text of the filter.
func (m *model) typeFilter(msg tea.KeyPressMsg) {
	l := m.lists[m.page]
	switch msg.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, l.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(l.filter)
		l.filter = l.filter[:len(l.filter)-size]
	case "ctrl+u":
		l.filter = ""
	case "up", "down":
		m.walk(msg.String())
	default:
		if utf8.RuneCountInString(l.filter+msg.Text) <= maxFilter {
			l.filter += printable(msg.Text)
		}
	}
}

// selected returns the selected row, if there is one.
func (m *model) selected() (row, bool) {
	l, rows := m.lists[m.page], m.rows()
	i := slices.IndexFunc(rows, func(r row) bool { return r.id == l.selected })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

// enter opens the selected row.
func (m *model) enter() {
	r, ok := m.selected()
	switch {
	case !ok:
	case m.page == queues, m.page == readers:
		queue := r.id
		if m.page == readers {
			queue = r.queue
		}
		if queue != m.queue {
			m.queue, m.lists[tenants] = queue, &list{sort: m.lists[tenants].sort, inverted: m.lists[tenants].inverted}
		}
		m.page = tenants
	case m.page == tenants && !r.stream:
		m.page, m.tenant = tenant, r.tenant
	}
}

// leave clears the filter, or goes back.
func (m *model) leave() {
	switch l := m.lists[m.page]; {
	case l.filter != "":
		l.filter = ""
	case m.page == tenant:
		m.page, m.tenant = tenants, ""
	case m.page == tenants:
		m.page = queues
	}
}

// turnTo goes to the next tab, or the one before.
func (m *model) turnTo(step int) {
	at := m.page
	if at >= tenants {
		at = queues
	}
	m.page = tabs[(int(at)+step+len(tabs))%len(tabs)].page
}

// sortBy sorts by the next column that is shown, or the one before.
func (m *model) sortBy(step int) {
	all := m.columns()
	if len(all) == 0 {
		return
	}
	l := m.lists[m.page]
	l.sort, l.inverted = (l.sort+step+len(all))%len(all), false
}

// setInterval chooses a longer or a shorter interval.
func (m *model) setInterval(step int) {
	i, found := slices.BinarySearch(intervals, m.interval)
	if !found && step > 0 {
		i-- // i is the next longer one
	}
	m.interval = intervals[max(0, min(i+step, len(intervals)-1))]
	m.due = m.began.Add(m.interval)
}
