package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// The checks of a fleet as a whole, on what its members say.

func checkFleet(s fleet.Status) []Finding {
	findings := []Finding{checkState(s)}
	findings = append(findings, checkMembers(s)...)
	return append(findings, checkNodes(s)...)
}

// Troubles says of each member of a fleet that does not serve how it is and why.
func Troubles(s fleet.Status) []string {
	var lines []string
	for _, f := range checkMembers(s) {
		if f.Level != OK {
			lines = append(lines, f.Value)
		}
	}
	return lines
}

func checkState(s fleet.Status) Finding {
	const check = "state"
	adding := 0
	for _, p := range s.Partitions {
		if p.Phase == directory.LookUp {
			adding++
		}
	}
	value := fmt.Sprintf("%s, %s, epoch %d", s.State, readable.Count(len(s.Partitions), "partition"), s.Epoch)
	switch {
	case s.State == directory.ReadOnly, s.State == directory.Out:
		return Finding{check, Fail, value, "What belongs to a partition without a master cannot be written, or not even read: look at millrace fleet show."}
	case s.State == directory.Partial:
		return Finding{check, Warn, value, "A partition without its replica loses data with its master: look at millrace fleet show."}
	case adding > 0:
		return Finding{check, Warn, fmt.Sprintf("%s, %d of them not open yet", value, adding), "If nobody is adding them now, repeat the millrace fleet add that was cut off."}
	}
	return Finding{check, OK, value, ""}
}

// states says what each state of a member but up means, and what to do about it.
var states = map[fleet.MemberState]struct{ meaning, remedy string }{
	fleet.Behind: {
		"it has a copy, and its master sends it nothing",
		"Look at its log, and at the link to its master.",
	},
	fleet.Copying: {
		"it does not have a copy yet",
		"It will have a copy soon, unless it begins again and again: look at its log.",
	},
	fleet.Fenced: {
		"it is to be the master, and takes no writes",
		"It takes no writes until it is made a master: look at its log and at the directory.",
	},
	fleet.Loading: {
		"it reads its data from disk",
		"It will serve when it has read its data.",
	},
	fleet.Strange: {
		"another server than expected is there, or it has lost its data",
		"Restore its data, or take it out of the fleet: nothing is written to it.",
	},
	fleet.Down: {
		"it does not answer",
		"Start it again, or look at what is between.",
	},
}

// checkMembers has a finding for each member that does not serve.
func checkMembers(s fleet.Status) []Finding {
	const check = "members"
	var findings []Finding
	up := 0
	look := func(p fleet.PartitionStatus, m fleet.MemberStatus, role string, level Level) {
		if m.State == fleet.Up {
			up++
			return
		}
		if m.State == fleet.Strange {
			level = Fail
		}
		findings = append(findings, Finding{check, level, trouble(p, m, role), states[m.State].remedy})
	}
	for _, p := range s.Partitions {
		look(p, p.Master, "master", Fail)
		for _, r := range p.Replicas {
			look(p, r, "replica", Warn)
		}
	}
	if len(findings) == 0 {
		return []Finding{{check, OK, readable.Count(up, "member") + " up", ""}}
	}
	return findings
}

// trouble says of a member that does not serve how it is, and why.
func trouble(p fleet.PartitionStatus, m fleet.MemberStatus, role string) string {
	why := states[m.State].meaning
	if m.Error != "" && m.Error != context.DeadlineExceeded.Error() {
		why = m.Error
	}
	return fmt.Sprintf("%s, the %s of partition %d, %s: %s", m.Addr, role, p.ID, m.State, why)
}

// checkNodes has a finding for each partition that one node can take along.
func checkNodes(s fleet.Status) []Finding {
	const check = "nodes"
	var findings []Finding
	nodes, nameless := map[string]bool{}, 0
	for _, p := range s.Partitions {
		var seen []string
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			switch {
			case m.Node == "":
				nameless++
			case slices.Contains(seen, m.Node):
				findings = append(findings, Finding{
					check, Warn, fmt.Sprintf("two members of partition %d are on node %s", p.ID, m.Node),
					"They are lost together: move one of them to another node.",
				})
			}
			seen = append(seen, m.Node)
			nodes[m.Node] = true
		}
	}
	switch {
	case len(findings) > 0:
	case nameless > 0:
		findings = append(findings, Finding{
			check, Note, fmt.Sprintf("%s without the name of a node", readable.Count(nameless, "member")),
			"Whether a partition is lost with one machine cannot be told: name nodes as HOST:PORT@NODE.",
		})
	default:
		findings = append(findings, Finding{check, OK, readable.Count(len(nodes), "node") + ", none with two members of a partition", ""})
	}
	return findings
}
