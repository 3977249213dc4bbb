package main

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/directory"
)

// The checks of a fleet as a whole, on what its members say.

func checkFleet(s fleet.Status) []finding {
	findings := []finding{checkState(s)}
	findings = append(findings, checkMembers(s)...)
	findings = append(findings, checkNodes(s)...)
	return append(findings, checkHints(s)...)
}

func checkState(s fleet.Status) finding {
	const check = "state"
	adding := 0
	for _, p := range s.Partitions {
		if p.Phase == directory.LookUp {
			adding++
		}
	}
	value := fmt.Sprintf("%s, %s, epoch %d", s.State, countPartitions(s), s.Epoch)
	switch {
	case s.State == directory.ReadOnly, s.State == directory.Out:
		return finding{check, levelFail, value, "What belongs to a partition without a master cannot be written, or not even read: look at millrace fleet show."}
	case s.State == directory.Partial:
		return finding{check, levelWarn, value, "A partition without its replica loses data with its master: look at millrace fleet show."}
	case adding > 0:
		return finding{check, levelWarn, fmt.Sprintf("%s, %d of them not open yet", value, adding), "If nobody is adding them now, repeat the millrace fleet add that was cut off."}
	}
	return finding{check, levelOK, value, ""}
}

// memberHints says what to do about a member in each state but up.
var memberHints = map[fleet.MemberState]string{
	fleet.Down:    "Start it again, or look at what is between.",
	fleet.Behind:  "Look at its log, and at the link to its master.",
	fleet.Copying: "It will have a copy soon, unless it begins again and again: look at its log.",
	fleet.Loading: "It will serve when it has read its data.",
	fleet.Fenced:  "It takes no writes until it is made a master: look at its log and at the directory.",
	fleet.Strange: "Restore its data, or take it out of the fleet: nothing is written to it.",
}

// checkMembers has a finding for each member that does not serve.
func checkMembers(s fleet.Status) []finding {
	const check = "members"
	var findings []finding
	up := 0
	look := func(p fleet.PartitionStatus, m fleet.MemberStatus, role string, level level) {
		if m.State == fleet.Up {
			up++
			return
		}
		if m.State == fleet.Strange {
			level = levelFail
		}
		findings = append(findings, finding{check, level, trouble(p, m, role), memberHints[m.State]})
	}
	for _, p := range s.Partitions {
		look(p, p.Master, "master", levelFail)
		for _, r := range p.Replicas {
			look(p, r, "replica", levelWarn)
		}
	}
	if len(findings) == 0 {
		return []finding{{check, levelOK, count(up, "member") + " up", ""}}
	}
	return findings
}

// checkNodes has a finding for each partition that one node can take along.
func checkNodes(s fleet.Status) []finding {
	const check = "nodes"
	var findings []finding
	nodes, nameless := map[string]bool{}, 0
	for _, p := range s.Partitions {
		var seen []string
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			switch {
			case m.Node == "":
				nameless++
			case slices.Contains(seen, m.Node):
				findings = append(findings, finding{
					check, levelWarn, fmt.Sprintf("two members of partition %d are on node %s", p.ID, m.Node),
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
		findings = append(findings, finding{
			check, levelNote, fmt.Sprintf("%s without the name of a node", count(nameless, "member")),
			"Whether a partition is lost with one machine cannot be told: name nodes as HOST:PORT@NODE.",
		})
	default:
		findings = append(findings, finding{check, levelOK, count(len(nodes), "node") + ", none with two members of a partition", ""})
	}
	return findings
}

func checkHints(s fleet.Status) []finding {
	const check = "hints"
	var findings []finding
	for _, v := range voices(s.Hints) {
		findings = append(findings, finding{
			check, levelWarn, v.addr + " cannot be reached, " + v.who(),
			"If it is up for you, look at the network between it and the clients.",
		})
	}
	if len(findings) == 0 {
		findings = append(findings, finding{check, levelOK, "clients reach all members", ""})
	}
	return findings
}
