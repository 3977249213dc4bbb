package top

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/readable"
)

// notice is a line about something that needs a person.
type notice struct {
	text string
	tone tone
}

// notices returns the faults, the worst first.
func (m *model) notices() []notice {
	var worst, rest []notice
	for _, n := range m.view.Server.Nodes {
		if nearlyFull(n) {
			worst = append(worst, notice{fmt.Sprintf("server %s is nearly full: %s of %s", printable(n.Addr), readable.Bytes(n.Memory), readable.Bytes(n.MaxMemory)), bad})
		}
	}
	if m.view.Away() == nil {
		for _, t := range m.view.Troubles {
			what := string(t.Kind)
			if t.Name != "" {
				what += " " + name(t.Name)
			}
			worst = append(worst, notice{printable(what + " cannot be read: " + t.Err.Error()), bad})
		}
	}
	for _, s := range m.view.Queues {
		for _, f := range m.found[s.Name] {
			text := fmt.Sprintf("queue %s %s", name(s.Name), f.Text)
			switch f.Severity {
			case diagnosis.Critical:
				worst = append(worst, notice{text, bad})
			case diagnosis.Warning:
				worst = append(worst, notice{text, warning})
			case diagnosis.Note:
				rest = append(rest, notice{text, warning})
			}
		}
		if s.OverdueSchedules > 0 {
			rest = append(rest, notice{fmt.Sprintf("queue %s: %s late", name(s.Name), readable.Count(s.OverdueSchedules, "schedule")), warning})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(m.view.LeftOut)) {
		n := m.view.LeftOut[kind]
		rest = append(rest, notice{fmt.Sprintf("%s of the kind %s are not shown", readable.Number(n), kind), warning})
	}
	slices.SortStableFunc(worst, func(a, b notice) int { return int(b.tone - a.tone) }) // few fit on the screen
	return append(worst, rest...)
}
