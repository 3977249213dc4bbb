package top

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/readable"
)

// notice is a line about something that needs a person.
type notice struct {
	text string
	tone tone
}

// notices are what is wrong, the worst first.
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
		switch state, tone := stateOf(s); state {
		case "unread":
			worst = append(worst, notice{fmt.Sprintf("queue %s has no reader: %s, the oldest %s", name(s.Name),
				waits(s.Waiting), readable.Duration(s.OldestAge)), tone})
		case "paused":
			if s.Waiting > 0 {
				rest = append(rest, notice{fmt.Sprintf("queue %s is paused: %s", name(s.Name), waits(s.Waiting)), tone})
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
	return append(worst, rest...)
}

func waits(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return readable.Number(n) + " messages wait"
}
