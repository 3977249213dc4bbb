package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// checkState judges whether the fleet can read and write.
func checkState(f *facts) (l findings) {
	where := fmt.Sprintf("%s, %s, epoch %d", f.status.State, readable.Count(len(f.status.Partitions), "partition"), f.status.Epoch)
	switch f.status.State {
	case fleet.Healthy:
	case fleet.ReadOnly, fleet.Out:
		l.add(finding.Critical, string(f.status.State), Fleetwide, "", where, "A partition without a master refuses writes, and reads if it has no replica: millrace fleet show.")
	case fleet.Partial:
		l.add(finding.Warning, string(f.status.State), Fleetwide, "", where, "A partition without its replica loses data with its master: millrace fleet show.")
	}
	return l.orOK("%s", where)
}

// states describes each state of a member but up, with the next step.
var states = map[fleet.MemberState]struct{ meaning, hint string }{
	fleet.Behind:  {"it has a copy, and its master sends it nothing", "Look at its log, and at the link to its master."},
	fleet.Copying: {"it does not have a copy yet", "It will have a copy soon, unless copying starts again and again: look at its log."},
	fleet.Fenced:  {"it is to be the master, and takes no writes", "It takes no writes until an agent makes it a master: look at its log and at the directory."},
	fleet.Loading: {"it reads its data from disk", "It serves when it has read its data."},
	fleet.Unknown: {"another server than expected is there, or it has lost its data", "Restore its data, or take it out of the fleet: nothing is written to it."},
	fleet.Down:    {"it does not answer", "Start it again, or check the network between."},
}

// checkMembers finds the members that do not serve.
func checkMembers(s fleet.Status) (l findings) {
	up := 0
	for _, p := range s.Partitions {
		for i, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			role, severity := "replica", finding.Warning
			if i == 0 {
				role, severity = "master", finding.Critical
			}
			switch m.State { //nolint:exhaustive // the others are as bad as their role
			case fleet.Up:
				up++
				continue
			case fleet.Unknown:
				severity = finding.Critical
			}
			why := states[m.State].meaning
			if m.Error != "" && m.Error != context.DeadlineExceeded.Error() {
				why = m.Error
			}
			l.add(severity, string(m.State), p.ID, m.Addr, fmt.Sprintf("the %s is %s: %s", role, stateWord(m.State), why), states[m.State].hint)
		}
	}
	return l.orOK("%s up", readable.Count(up, "member"))
}

func stateWord(s fleet.MemberState) string {
	if s == fleet.Unknown {
		return "a stranger"
	}
	return string(s)
}

// Troubles describes each member of a fleet that does not serve, and why.
func Troubles(s fleet.Status) (lines []string) {
	for _, f := range checkMembers(s) {
		if f.Severity != finding.OK {
			lines = append(lines, f.String())
		}
	}
	return lines
}

// fenceHint says how a member gets its boot fence.
const fenceHint = "Put --replicaof 127.0.0.1 1 --replica-serve-stale-data no on its command line, then restart it to prove it: millrace fleet restart."

// checkBootFence judges how members came back from the last restart that was seen. A server
// does not tell its command line to a client.
func checkBootFence(f *facts) (l findings) {
	fenced := 0
	for _, m := range f.members {
		switch m.Boot {
		case directory.BootFenced:
			fenced++
		case directory.BootOpen:
			l.add(finding.Critical, "no_fence", m.partition, m.Addr, "it came back from its last restart without its boot fence: until an agent fenced it, it took writes that are lost", fenceHint)
		default:
			l.add(finding.Note, "not_restarted", m.partition, m.Addr, "no restart of it was seen, so it is not known to have a boot fence", "Restart it to prove it: millrace fleet restart.")
		}
	}
	return l.orOK("%s came back fenced from the last restart", readable.Count(fenced, "member"))
}

// checkSettings judges the settings that a promise or the agents rest on.
func checkSettings(f *facts) (l findings) {
	maxMemory := map[int]string{} // by partition
	answered := f.answered(&l)
	for _, m := range answered {
		say := func(severity finding.Severity, code, text, advice string) {
			l.add(severity, code, m.partition, m.Addr, text, advice)
		}
		if m.settings == nil {
			say(finding.Note, finding.Refused, "it does not let this user read its settings", "Run the check as the user of agents: docs/SECURITY.md.")
			continue
		}
		m.checkEviction(say)
		m.checkDisk(say)
		m.checkLinks(say)
		limit := m.settings["maxmemory"]
		if other, ok := maxMemory[m.partition]; ok && other != limit {
			say(finding.Warning, "unequal_maxmemory", "its maxmemory is not that of its partition's other members", "Give all members of a partition the same: CONFIG SET maxmemory, and in its file.")
		} else {
			maxMemory[m.partition] = limit
		}
	}
	return l.orOK("%s set as a fleet needs it", readable.Count(len(answered), "member"))
}

type say func(severity finding.Severity, code, text, advice string)

func (m *member) checkEviction(say say) {
	policy, limit := m.settings["maxmemory-policy"], m.settings["maxmemory"]
	switch {
	case strings.HasPrefix(policy, "allkeys-") && limit != "0":
		say(finding.Critical, "evicts", "it may evict any key, and with a tag's record its place: its maxmemory-policy is "+policy, "CONFIG SET maxmemory-policy noeviction, and in its file.")
	case strings.HasPrefix(policy, "allkeys-"):
		say(finding.Warning, "evicts", "it would evict any key if it had a maxmemory: its maxmemory-policy is "+policy, "CONFIG SET maxmemory-policy noeviction, and in its file.")
	case limit == "0":
		say(finding.Warning, "no_maxmemory", "it has no maxmemory: it never sends new tags on, and the system may kill it", "CONFIG SET maxmemory, and in its file: the memory that the machine has for Redis, divided by one more than its servers.")
	}
}

func (m *member) checkDisk(say say) {
	saves := m.settings["save"] != ""
	switch {
	case saves && m.settings["stop-writes-on-bgsave-error"] != "no" && m.info["rdb_last_bgsave_status"] == "err":
		say(finding.Critical, "save_fails", "it refuses writes since a snapshot failed", `Look at its log and its disk, and CONFIG SET save "".`)
	case saves:
		say(finding.Warning, "save", "it has save points: a snapshot that fails stops its writes, and two at a time may need twice the memory", `CONFIG SET save "", and in its file; agents take the snapshots: millrace fleet agent --snapshots-every 1h.`)
	}
	if m.info["aof_last_write_status"] == "err" && m.info["aof_enabled"] == "1" {
		say(finding.Critical, "aof_fails", "it cannot write its append-only file, and refuses writes", "Look at its log and its disk.")
	}
}

// checkLinks judges the settings of replication and of clients.
func (m *member) checkLinks(say say) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(m.settings[name], 10, 64)
		return n
	}
	if m.settings["replica-read-only"] == "no" {
		say(finding.Critical, "writable_replica", "it takes writes as a replica, so nothing fences it", "CONFIG SET replica-read-only yes, and in its file.")
	}
	if number("min-replicas-max-lag") > finding.ReplicaMaxLag {
		say(finding.Warning, "max_lag", fmt.Sprintf("it takes a replica for up to date that has said nothing for longer than %d s", finding.ReplicaMaxLag), fmt.Sprintf("CONFIG SET min-replicas-max-lag %d, and in its file.", finding.ReplicaMaxLag))
	}
	if number("repl-backlog-size") < finding.Backlog {
		say(finding.Warning, "backlog", "its repl-backlog-size is below "+readable.Bytes(finding.Backlog)+": after a short break of the link a replica copies everything", "CONFIG SET repl-backlog-size 64mb, and in its file.")
	}
	if limit := replicaBuffer(m.settings["client-output-buffer-limit"]); limit > 0 && limit < finding.ReplicaBuffer {
		say(finding.Warning, "replica_buffer", "its client-output-buffer-limit for replicas is below "+readable.Bytes(finding.ReplicaBuffer)+": a copy under load breaks off again and again", `CONFIG SET client-output-buffer-limit "replica 256mb 64mb 60", and in its file.`)
	}
	if limit := number("timeout"); limit > 0 && limit < finding.IdleTimeout {
		say(finding.Warning, "timeout", "it closes connections of clients that are idle for some seconds", "CONFIG SET timeout 0, and in its file.")
	}
}

// replicaBuffer returns the hard limit of the buffer of a replica, 0 for none.
func replicaBuffer(limits string) int64 {
	words := strings.Fields(limits)
	i := max(slices.Index(words, "slave"), slices.Index(words, "replica"))
	if i < 0 || i+1 >= len(words) {
		return 0
	}
	n, _ := strconv.ParseInt(words[i+1], 10, 64)
	return n
}

// version is that of a server, such as 7.0.15.
type version [3]int

func (m *member) version() (v version, name string) {
	number, valkey := strings.CutPrefix(m.report.Version, "valkey ")
	_, _ = fmt.Sscanf(number, "%d.%d.%d", &v[0], &v[1], &v[2])
	return v, map[bool]string{true: "Valkey ", false: "Redis "}[valkey] + number
}

// checkVersions judges which servers can copy each other.
func checkVersions(f *facts) (l findings) {
	names := map[string]int{}
	answered := f.answered(&l)
	for _, m := range answered {
		v, name := m.version()
		names[name]++
		if strings.HasPrefix(name, "Redis") && slices.Compare(v[:], []int{finding.OldestMajor, finding.OldestMinor}) < 0 {
			l.add(finding.Critical, "too_old", m.partition, m.Addr, "it is "+name+", and scripts need commands of 6.2", "Replace it by Redis 6.2 or later, or Valkey.")
		}
		master := f.master(m.partition)
		if m.role == "master" || master.err != nil {
			continue
		}
		than, newer := master.version()
		switch {
		case name[:1] != newer[:1]:
			l.add(finding.Warning, "mixed", m.partition, m.Addr, fmt.Sprintf("it is %s, and its master %s: they may not read each other's copies", name, newer), "Run the same on all members of a partition.")
		case slices.Compare(v[:2], than[:2]) < 0:
			l.add(finding.Critical, "older_replica", m.partition, m.Addr, fmt.Sprintf("it is %s, and its master %s: it may not be able to read a copy", name, newer), "Update replicas before masters: millrace fleet restart.")
		}
	}
	var list []string
	for name, n := range names {
		list = append(list, fmt.Sprintf("%d of %s", n, name))
	}
	slices.Sort(list)
	if len(list) > 1 {
		l.add(finding.Warning, "versions", Fleetwide, "", "members differ in version: "+strings.Join(list, ", "), "Finish the update: millrace fleet restart.")
	}
	return l.orOK("%s, map version %d", strings.Join(list, ""), f.m.Version)
}

// checkClocks compares the clocks of members: deadlines and leases are kept by the server's
// time, and go on on another server after a failover.
func checkClocks(f *facts) (l findings) {
	answered := f.answered(&l)
	if len(answered) == 0 {
		return l
	}
	slices.SortFunc(answered, func(a, b *member) int { return cmp.Compare(a.ahead, b.ahead) })
	middle := answered[len(answered)/2]
	for _, m := range answered {
		if skew := (m.ahead - middle.ahead).Abs(); skew-m.doubt-middle.doubt > finding.ClockSkew {
			l.add(finding.Warning, "clock", m.partition, m.Addr, fmt.Sprintf("its clock differs by %s from that of most members: a failover changes when deadlines and leases end", readable.Duration(skew)), "Run NTP on its machine.")
		}
	}
	return l.orOK("%s within %s", readable.Count(len(answered), "clock"), readable.Duration(finding.ClockSkew))
}
