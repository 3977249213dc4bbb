package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
)

// notices returns what needs a person, the worst first: few fit on the screen.
func (m *model) notices() (all []finding.Finding) {
	add := func(severity finding.Severity, text string) {
		all = append(all, finding.New(severity, "", text, ""))
	}
	for _, n := range m.view.Server.Nodes {
		if finding.NearlyFull(n.Memory, n.MaxMemory, m.view.Fleet != nil) {
			add(finding.Warning, fmt.Sprintf("server %s is nearly full: %s of %s", printable(n.Addr), readable.Bytes(n.Memory), readable.Bytes(n.MaxMemory)))
		}
		if unsaved := n.Unsaved(); unsaved != "" {
			add(finding.Critical, fmt.Sprintf("server %s %s", printable(n.Addr), unsaved))
		}
	}
	if m.view.Away() == nil {
		for _, t := range m.view.Troubles {
			what := string(t.Kind)
			if t.Name != "" {
				what += " " + name(t.Name)
			}
			add(finding.Critical, printable(what+" cannot be read: "+t.Err.Error()))
		}
	}
	for _, s := range m.view.Queues {
		for _, f := range m.found[s.Name] {
			add(f.Severity, fmt.Sprintf("queue %s %s", name(s.Name), f.Text))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(m.view.LeftOut)) {
		add(finding.Note, fmt.Sprintf("%s of the kind %s are not shown", readable.Number(m.view.LeftOut[kind]), kind))
	}
	slices.SortStableFunc(all, func(a, b finding.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return all
}
