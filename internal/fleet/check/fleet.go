package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/retry"
)

// checkDirectory judges whether the map survives.
func checkDirectory(f *facts) (l findings) {
	if f.unconfirmed != nil {
		l.add(finding.Critical, "unconfirmed", Fleetwide, "", "it confirms no map, so clients write nothing: "+f.unconfirmed.Error(), "Start its servers: docs/FLEET.md, \"States, and what to do\".")
	}
	for _, r := range f.remarks {
		l.add(r.Severity, r.Code, Fleetwide, r.Server, r.Text, r.Advice)
	}
	return l
}

// checkNodes judges whether two members of a partition are lost together, and whether the
// load of masters is spread.
func checkNodes(f *facts) (l findings) {
	masters, machines, unnamed := map[string]int{}, map[string]bool{}, 0
	for _, p := range f.m.Partitions {
		var seen []string
		for _, m := range p.Members() {
			machine := m.Machine()
			switch {
			case slices.Contains(seen, machine) && m.Node != "":
				l.add(finding.Warning, "same_node", p.ID, "", "two of its members are on node "+machine, "They are lost together: millrace fleet replica move.")
			case slices.Contains(seen, machine):
				l.add(finding.Warning, "same_host", p.ID, "", "two of its members are on host "+machine, "They are lost together: millrace fleet replica move. If these are several machines, name them: HOST:PORT@NODE.")
			}
			seen = append(seen, machine)
			machines[machine] = true
			if m.Node == "" {
				unnamed++
			}
		}
		masters[p.Master.Machine()]++
	}
	if unnamed > 0 {
		l.add(finding.Note, "unnamed", Fleetwide, "", readable.Count(unnamed, "member")+" without the name of a node: whether hosts share a machine is not known", "Write new members as HOST:PORT@NODE; millrace fleet replica move replaces one that has none.")
	}
	even := (len(f.m.Partitions) + len(machines) - 1) / len(machines)
	for _, machine := range slices.Sorted(maps.Keys(masters)) {
		if n := masters[machine]; n >= even+max(1, even/finding.UnevenShare) {
			l.add(finding.Warning, "uneven", Fleetwide, "", fmt.Sprintf("%s has %d of %s, %d would be even", machine, n, readable.Count(len(f.m.Partitions), "master"), even),
				"Switch some to their replicas: millrace fleet failover PARTITION.")
		}
	}
	return l.orOK("%s, none with two members of a partition", readable.Count(len(machines), "node"))
}

// checkSnapshots judges how much data is lost with all members of a partition.
func checkSnapshots(f *facts) (l findings) {
	if f.noAges != nil {
		l.add(finding.Note, "silent", Fleetwide, "", "the directory does not tell the ages of snapshots: "+f.noAges.Error(), "Look at the directory.")
		return l
	}
	const take = "millrace fleet agent --snapshots-every 1h --archive DIR"
	if len(f.ages.Saved.None) == len(f.ages.Partitions) {
		l.add(finding.Warning, "no_snapshots", Fleetwide, "", "there are no snapshots: what all members of a partition lose is lost", "Take them regularly: "+take+".")
		return l
	}
	archives := len(f.ages.Archived.None) < len(f.ages.Partitions)
	for _, s := range f.ages.Partitions {
		say := func(code, text, advice string) { l.add(finding.Warning, code, s.Partition, "", text, advice) }
		now := fmt.Sprintf("millrace fleet snapshot --now %d, and look at the agents.", s.Partition)
		switch saved := f.ages.Age(s.Saved.At); {
		case s.Saved.At.IsZero():
			say("no_snapshot", "it has no snapshot", now)
		case saved > f.maxAge:
			say("old_snapshot", fmt.Sprintf("its newest snapshot is %s old", readable.Duration(saved)), now)
		}
		switch archived := f.ages.Age(s.Archived.At); {
		case !archives:
		case s.Archived.At.IsZero():
			say("no_archive", "it has no snapshot in the archive", now)
		case archived > f.maxAge:
			say("old_archive", fmt.Sprintf("its newest snapshot in the archive is %s old", readable.Duration(archived)), now)
		}
		if !s.Failed.At.IsZero() {
			say("failed_snapshot", "its last snapshot failed: "+s.Failed.Why, "Look at the log of "+s.Failed.Addr+" and at its disk; then "+now)
		}
	}
	kept := "none in an archive"
	if archives {
		kept = "all in an archive"
	}
	return l.orOK("%s, the oldest %s old, %s", readable.Count(len(f.ages.Partitions), "snapshot"), readable.Duration(f.ages.Saved.Longest), kept)
}

// checkAgents judges whether an agent leads the fleet, and finishes changes that were begun.
func checkAgents(f *facts) (l findings) {
	const run = "Run two or three: millrace fleet agent."
	switch {
	case retry.Denied(f.noLeader):
		l.add(finding.Note, finding.Refused, Fleetwide, "", "the directory does not let this user ask whether an agent leads", "Run the check as the user of agents: docs/SECURITY.md.")
	case f.noLeader != nil:
		l.add(finding.Note, "silent", Fleetwide, "", "the directory does not say whether an agent leads: "+f.noLeader.Error(), "Look at the directory.")
	case f.leader == "":
		l.add(finding.Critical, "no_agent", Fleetwide, "", "no agent leads: no master is replaced when it dies", run)
	}
	if reason, stopped := f.last(Fleetwide, directory.Stopped); stopped {
		l.add(finding.Critical, "stopped", Fleetwide, "", "agents change nothing: "+reason, "Decide which map is right: docs/FLEET.md, \"A directory that went back\".")
	}
	if f.m.Adding() {
		l.add(finding.Warning, "adding", Fleetwide, "", "an addition of partitions is not finished: new tags may wait", "Repeat the millrace fleet add that was interrupted, or run an agent.")
	}
	tasks := 0
	for _, p := range f.m.Partitions {
		if p.Task == nil {
			continue
		}
		tasks++
		if f.noEvents != nil {
			l.add(finding.Note, "silent", p.ID, "", "the directory does not tell what a change of its members waits for", "Look at the directory.")
		} else if reason, waits := f.last(p.ID, failover.TaskWaits); waits {
			l.add(finding.Warning, "task", p.ID, "", "a change of its members waits: "+reason, "Mend what it waits for, and agents go on: millrace fleet show.")
		}
	}
	if tasks > 0 {
		return l.orOK("agent %s leads, the members of %s are being changed", f.leader, readable.Count(tasks, "partition"))
	}
	return l.orOK("agent %s leads", f.leader)
}

// last returns the rest of the last event of a partition if that begins with a text.
func (f *facts) last(partition int, begins string) (rest string, ok bool) {
	i := slices.IndexFunc(f.events, func(e directory.Event) bool { return e.Partition == partition })
	if i < 0 {
		return "", false
	}
	return strings.CutPrefix(f.events[i].What, begins)
}
