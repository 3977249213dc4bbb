package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// checkFleet checks a fleet as a whole.
func checkFleet(s fleet.Status) []Finding {
	return slices.Concat(
		named("state", []Finding{checkState(s)}), named("members", checkMembers(s)), named("nodes", checkNodes(s)))
}

// named adds the name of their check to findings.
func named(check string, findings []Finding) []Finding {
	for i := range findings {
		findings[i].Check = check
	}
	return findings
}

// Troubles describes each member of a fleet that does not serve, and why.
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
	adding := 0
	for _, p := range s.Partitions {
		if p.Phase == directory.LookUp {
			adding++
		}
	}
	value := fmt.Sprintf("%s, %s, epoch %d", s.State, readable.Count(len(s.Partitions), "partition"), s.Epoch)
	switch {
	case s.State == fleet.ReadOnly, s.State == fleet.Out:
		return fail(value, "A partition without a master refuses writes, and reads if it has no replica: see millrace fleet show.")
	case s.State == fleet.Partial:
		return warn(value, "A partition without its replica loses data with its master: see millrace fleet show.")
	case adding > 0:
		return warn(fmt.Sprintf("%s, %d of them not open yet", value, adding), "If they are not being added now, repeat the millrace fleet add that was interrupted.")
	}
	return ok(value)
}

// states describes each state of a member but up, and what to do about it.
var states = map[fleet.MemberState]struct{ meaning, remedy string }{
	fleet.Behind:  {"it has a copy, and its master sends it nothing", "Look at its log, and at the link to its master."},
	fleet.Copying: {"it does not have a copy yet", "It will have a copy soon, unless copying starts again and again: look at its log."},
	fleet.Fenced:  {"it is to be the master, and takes no writes", "It takes no writes until an agent makes it a master: look at its log and at the directory."},
	fleet.Loading: {"it reads its data from disk", "It serves when it has read its data."},
	fleet.Unknown: {"another server than expected is there, or it has lost its data", "Restore its data, or take it out of the fleet: nothing is written to it."},
	fleet.Down:    {"it does not answer", "Start it again, or check the network between."},
}

// checkMembers returns a finding for each member that does not serve.
func checkMembers(s fleet.Status) []Finding {
	var findings []Finding
	up := 0
	for _, p := range s.Partitions {
		for i, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			role, report := "replica", warn
			if i == 0 {
				role, report = "master", fail
			}
			switch m.State { //nolint:exhaustive // the others are as bad as their role
			case fleet.Up:
				up++
				continue
			case fleet.Unknown:
				report = fail
			}
			why := states[m.State].meaning
			if m.Error != "" && m.Error != context.DeadlineExceeded.Error() {
				why = m.Error
			}
			findings = append(findings, report(
				fmt.Sprintf("%s, the %s of partition %d, %s: %s", m.Addr, role, p.ID, m.State, why), states[m.State].remedy))
		}
	}
	if len(findings) == 0 {
		findings = append(findings, ok(readable.Count(up, "member")+" up"))
	}
	return findings
}

// checkNodes returns a finding for each partition with two members on one node.
func checkNodes(s fleet.Status) []Finding {
	var findings []Finding
	nodes, nameless := map[string]bool{}, 0
	for _, p := range s.Partitions {
		var seen []string
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			switch {
			case m.Node == "":
				nameless++
			case slices.Contains(seen, m.Node):
				findings = append(findings, warn(fmt.Sprintf("two members of partition %d are on node %s", p.ID, m.Node),
					"They are lost together: move one of them to another node."))
			}
			seen = append(seen, m.Node)
			nodes[m.Node] = true
		}
	}
	switch {
	case len(findings) > 0:
	case nameless > 0:
		findings = append(findings, note(fmt.Sprintf("%s without the name of a node", readable.Count(nameless, "member")),
			"Without node names it is unknown whether one machine holds a whole partition: write members as HOST:PORT@NODE."))
	default:
		findings = append(findings, ok(readable.Count(len(nodes), "node")+", none with two members of a partition"))
	}
	return findings
}
