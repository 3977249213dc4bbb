package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestExamine loses the members of a cluster one after the other.
func TestExamine(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	url := cluster.URL("f")
	all, two := dialStore(t, url), dialStore(t, url[:strings.LastIndex(url, ",")]+"/f")
	view := time.Duration(0)
	found := func(s *store, want ...string) {
		t.Helper()
		var last []directory.Remark
		redistest.Eventually(t, "the examination finds "+strings.Join(want, ", "), func() bool {
			last = s.Examine(t.Context(), view)
			var codes []string
			for _, r := range last {
				codes = append(codes, r.Severity.String()+" "+r.Code)
			}
			slices.Sort(codes)
			return slices.Equal(codes, want)
		})
		for _, r := range last {
			if (r.Advice == "") != (r.Severity == finding.OK) || r.Text == "" {
				t.Errorf("remark %+v, want a sentence, and what to do unless all is well", r)
			}
		}
	}
	found(all, "ok durable")
	found(two, "warning unnamed_members")
	view = time.Second
	found(all, "ok durable", "warning short_view")
	view = finding.LongElection
	found(all, "ok durable")

	follower := cluster.Follower()
	follower.CutPeers()
	found(all, "warning alone")
	follower.Heal()
	found(all, "ok durable")
	follower.Kill()
	found(all, "warning silent")
	cluster.Leader().Freeze()
	found(all, "critical no_leader", "warning silent", "warning silent")
}

// TestRemarksOfAMoment: members are asked one by one. So the leader can change in between, and a URL
// can name one of them twice.
func TestRemarksOfAMoment(t *testing.T) {
	t.Parallel()
	says := func(member, leader uint64) report {
		status := &clientv3.StatusResponse{Header: &pb.ResponseHeader{MemberId: member}, Version: "3.6.9", Leader: leader}
		return report{addr: fmt.Sprint("etcd", member), status: status, voters: 3}
	}
	for name, tc := range map[string]struct {
		reports []report
		want    []string
	}{
		"a leader":                      {[]report{says(1, 3), says(2, 3), says(3, 3)}, []string{"durable"}},
		"the leader changes":            {[]report{says(1, 3), says(2, 3), says(3, 1)}, []string{"no_leader"}},
		"the leader is not named":       {[]report{says(1, 3), says(2, 3)}, []string{"unnamed_members"}},
		"a follower is named twice":     {[]report{says(1, 3), says(2, 3), says(2, 3)}, []string{"unnamed_members"}},
		"the leader does not answer us": {[]report{says(1, 3), says(2, 3), {addr: "etcd3", err: errTLS}}, []string{"silent"}},
	} {
		var codes []string
		for _, r := range remarks(tc.reports) {
			codes = append(codes, r.Code)
		}
		if !slices.Equal(codes, tc.want) {
			t.Errorf("%s: the remarks are %q, want %q", name, codes, tc.want)
		}
	}
}

// TestExamineOneMember has a cluster that is small, and full.
func TestExamineOneMember(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Members: 1, Args: []string{"--quota-backend-bytes", "100000"}})
	s := dial(t, cluster.URL("f"))
	if remarks := s.Examine(t.Context()); len(remarks) != 1 || remarks[0].Code != "few_members" {
		t.Errorf("the examination finds %+v, want few members", remarks)
	}
	client, value := cluster.Members[0].Client(t), strings.Repeat("x", 10_000)
	redistest.Eventually(t, "etcd is full", func() bool {
		_, err := client.Put(t.Context(), "k", value)
		return err != nil
	})
	if remarks := s.Examine(t.Context()); len(remarks) != 2 || remarks[0].Code != "alarm" || remarks[0].Severity != finding.Critical {
		t.Errorf("the examination finds %+v, want an alarm", remarks)
	}
}
