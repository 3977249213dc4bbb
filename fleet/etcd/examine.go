package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// report is a member's report about itself.
type report struct {
	addr   string
	status *clientv3.StatusResponse
	voters int // members that vote, as far as this one knows
	err    error
}

// Examine implements directory.Store. It asks all members at the same time.
func (s *store) Examine(ctx context.Context, viewTTL time.Duration) []directory.Remark {
	reports := make([]report, len(s.members))
	var asking sync.WaitGroup
	for i, m := range s.members {
		asking.Go(func() { reports[i] = m.report(ctx) })
	}
	asking.Wait()
	found := remarks(reports)
	if viewTTL > 0 && viewTTL < finding.LongElection {
		found = append(found, remark(finding.Warning, "short_view", "", fmt.Sprintf("etcd confirms nothing while it elects a leader, so the fleet is read-only then: its view-life is below %v, three election timeouts by etcd's default", finding.LongElection),
			"It was set by millrace fleet init, and does not change. Make the next fleet with --view-life 3s, or three times the election timeout of etcd."))
	}
	return found
}

// report asks one member.
func (m *member) report(ctx context.Context) report {
	endpoint := m.config.Endpoints[0]
	_, addr, _ := strings.Cut(endpoint, "://")
	r := report{addr: addr}
	c, err := m.connected(ctx)
	if err == nil {
		r.status, err = c.Status(ctx, endpoint)
	}
	if err == nil {
		var all *clientv3.MemberListResponse
		// Serializable, since a member that does not reach the leader answers nothing else.
		if all, err = c.MemberList(ctx, clientv3.WithSerializable()); err == nil {
			for _, member := range all.Members {
				if !member.IsLearner {
					r.voters++
				}
			}
		}
	}
	if r.err = explain(err); r.err != nil && ctx.Err() != nil {
		r.err = context.Cause(ctx)
	}
	return r
}

func remark(severity finding.Severity, code, server, text, advice string) directory.Remark {
	return directory.Remark{Finding: finding.New(severity, code, text, advice), Server: server}
}

// remarks judges the members.
func remarks(reports []report) (found []directory.Remark) {
	add := func(severity finding.Severity, code, server, text, advice string) {
		found = append(found, remark(severity, code, server, text, advice))
	}
	answered := map[uint64]bool{} // by the ids of members: a URL can name one twice
	voters, silent, led := 0, 0, false
	var leader report
	var alone []string // those that know no leader
	for _, r := range reports {
		if r.err != nil {
			silent++
			add(finding.Warning, "silent", r.addr, "does not answer: "+r.err.Error(), "Start it again, or take it out of the URL.")
			continue
		}
		answered[r.status.Header.MemberId] = true
		voters = max(voters, r.voters)
		if isOld(r.status.Version) {
			add(finding.Critical, "stale_reads", r.addr,
				"has version "+r.status.Version+", and a fleet needs at least "+fixedVersions+": older ones may confirm a map that was replaced",
				"Upgrade etcd, one member after the other. Debian's packages up to 13 are older.")
		}
		if r.status.Leader == 0 { // which is in its Errors, too
			alone = append(alone, r.addr)
			continue
		}
		led = true
		if r.status.Leader == r.status.Header.MemberId {
			leader = r
		}
		for _, alarm := range r.status.Errors {
			add(finding.Critical, "alarm", r.addr, "is in trouble: "+alarm,
				"Look at etcdctl alarm list, and at its log. If it is full: compact and defragment it, then etcdctl alarm disarm.")
		}
	}
	if leader.addr == "" && len(answered) >= voters {
		led = false // another one was elected while they were asked
	}
	switch {
	case len(answered) == 0:
		add(finding.Critical, "no_leader", "", "no member of etcd answers", "Start etcd again.")
		return found
	case !led:
		add(finding.Critical, "no_leader", "", "no member of etcd leads: nothing is confirmed or changed", "Start most members of etcd again, and see whether they reach each other.")
	default:
		for _, addr := range alone {
			add(finding.Warning, "alone", addr, "does not reach the leader of etcd", "Look at the network between the members of etcd.")
		}
	}
	if voters < finding.EtcdMembers {
		add(finding.Warning, "few_members", "", fmt.Sprintf("etcd has %d of %d members: if one is lost the fleet is read-only", voters, finding.EtcdMembers), "Add members to etcd, on other machines, and to the URL.")
	}
	if named := len(answered) + silent; voters > named {
		add(finding.Warning, "unnamed_members", "", fmt.Sprintf("the URL names %d of %d members of etcd", named, voters), "Name all, so that any may be lost: etcd://HOST:PORT,HOST2:PORT2/FLEET.")
	}
	if len(found) == 0 {
		add(finding.OK, "durable", leader.addr, fmt.Sprintf("leads %d members of etcd %s", voters, leader.status.Version), "")
	}
	return found
}
