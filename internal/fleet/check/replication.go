package check

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/replicas"
)

// checkReplication judges whether each replica follows the master of the map, and has all data of
// the master. The check of members judges replicas that are down or have no link.
func checkReplication(f *facts) (l findings) {
	f.answered(&l)
	linked := 0
	for _, p := range f.m.Partitions {
		if master := f.master(p.ID); master.err == nil {
			linked += f.checkPartition(&l, p, master)
		}
	}
	return l.orOK("%s in step", readable.Count(linked, "replica"))
}

// checkPartition returns how many replicas are in step.
func (f *facts) checkPartition(l *findings, p directory.Partition, master *member) (inStep int) {
	say := func(severity finding.Severity, code, text, advice string) {
		l.add(severity, code, p.ID, master.Addr, text, advice)
	}
	if p.History != "" && p.History != master.report.History {
		say(finding.Warning, "history", "the map does not know yet which copies are of its present data; no data is lost, but nobody could take its place now", "An agent stores that within seconds: run millrace fleet agent.")
	}
	var names replicas.Names
	known := master.info.Replicas()
	for _, replica := range f.replicas(p.ID) {
		if replica.err == nil && f.checkReplica(l, master, replica, known, &names) {
			inStep++
		}
	}
	need := master.report.InStep
	if text := master.settings["min-replicas-to-write"]; text != "" && master.report.Master {
		wants, _ := strconv.Atoi(text)
		switch {
		case wants > need:
			say(finding.Critical, "refuses_writes", fmt.Sprintf("it refuses writes until %s are in step, and has %d", readable.Count(wants, "replica"), need), "An agent sets what is right: run millrace fleet agent.")
		case wants == 0 && inStep > 0:
			say(finding.Warning, "lonely_writes", "it takes writes without a replica in step: its min-replicas-to-write is 0", "The leading agent sets it within seconds: run millrace fleet agent if there is none.")
		}
	}
	confirmed := f.m.Settings.Effective().Confirmed
	switch {
	case len(p.Replicas) == 0:
		l.add(finding.Warning, "no_replica", p.ID, "", "it has no replica: its data is lost with its master", "Add one on another node: millrace fleet replica add.")
	case len(p.Replicas) < confirmed:
		l.add(finding.Critical, "confirmed", p.ID, "", fmt.Sprintf("it has %s, and a failover needs the writes that %d confirmed", readable.Count(len(p.Replicas), "replica"), confirmed), "Add replicas on other nodes: millrace fleet replica add.")
	case inStep < confirmed:
		l.add(finding.Warning, "confirmed", p.ID, "", fmt.Sprintf("%d of the %d replicas in step that writers may wait for", inStep, confirmed), "Bring its replicas back: millrace fleet show.")
	}
	return inStep
}

// checkReplica reports whether a replica is in step.
func (f *facts) checkReplica(l *findings, master, replica *member, known []info.Fields, names *replicas.Names) bool {
	say := func(severity finding.Severity, code, text, advice string) {
		l.add(severity, code, replica.partition, replica.Addr, text, advice)
	}
	const agent = "An agent repairs it: run millrace fleet agent, and look at its log."
	switch {
	case replica.report.Master:
		say(finding.Critical, "second_master", "it is a replica by the map, and takes writes", agent)
		return false
	case !follows(replica, master, names):
		say(finding.Critical, "wrong_master", fmt.Sprintf("it follows %s and not its master", replica.report.Follows), agent)
		return false
	case !replica.report.Linked || replica.report.Copying:
		return false
	case replica.report.History != master.report.History:
		say(finding.Critical, "history", "what it has is not a copy of its master's data, and does not count as one", agent)
		return false
	}
	if run := members.FollowedRun(replica.settings["masteruser"]); replica.settings != nil && run != master.report.Run {
		say(finding.Warning, "run", "it logs in to an earlier run of its master, and cannot link again", agent)
	}
	i := slices.IndexFunc(known, func(k info.Fields) bool { return names.Match(replica.Addr, k["ip"], k["port"]) })
	if i < 0 {
		say(finding.Warning, "address", "its master knows it by another address than the map: WaitReplicas does not count it", "Set its replica-announce-ip and replica-announce-port to the address in the map.")
		return true
	}
	switch behind := master.report.End - known[i].Int("offset"); {
	case known[i]["state"] != "online":
		return false
	case known[i].Int("lag") > finding.ReplicaLag:
		say(finding.Warning, "lag", fmt.Sprintf("it has acknowledged nothing for %d s: a failover now loses the newest writes", known[i].Int("lag")), "Look at its load and its link.")
		return false
	case master.settings != nil && behind > max(finding.Backlog, master.info.Int("repl_backlog_size")):
		say(finding.Warning, "lag", fmt.Sprintf("it is %s behind, more than its master's backlog: if the link breaks it copies everything", readable.Bytes(behind)), "Look at its load and its link, and CONFIG SET repl-backlog-size on its master.")
		return false
	}
	return true
}

// follows reports whether a replica follows a master, by name or by address.
func follows(replica, master *member, names *replicas.Names) bool {
	host, port, err := net.SplitHostPort(replica.report.Follows)
	return replica.report.Follows == master.Addr || err == nil && names.Match(master.Addr, host, port)
}
