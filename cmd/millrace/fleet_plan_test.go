package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/fleet/plan"
)

func TestFleetPlan(t *testing.T) {
	t.Parallel()
	s := shell{t: t} // it needs no server
	cluster := []string{"fleet", "plan", "--nodes", "14", "--ram", "96GB", "--threads", "16"}
	got := answer[plan.Plan](s, append(cluster, "--partitions", "160", "--user-bytes", "4mb")...)
	want := plan.Plan{
		Partitions: 160, Copies: 2, Instances: 320,
		Size:  plan.Size{Nodes: 14, InstancesPerNode: 23, InstanceBytes: 4 << 30, UsersPerPartition: 1024, Users: 163840},
		Grown: plan.Size{Nodes: 20, InstancesPerNode: 16, InstanceBytes: 96 << 30 / 17, UsersPerPartition: 1445, Users: 231200},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if got := answer[plan.Plan](s, append(cluster, "--growth", "2", "--copies", "1")...); got.Partitions != 448 || got.InstancesPerNode != 32 || got.Users != 0 {
		t.Errorf("plan for growth = %+v, want 448 partitions, 32 instances a node, and no users", got)
	}

	table := s.run(append(cluster, "--partitions", "160", "--user-bytes", "4mb")...).stdout
	for _, part := range []string{
		"160 partitions of 2 members: 320 servers\n", "AT FIRST  GROWN\n", "users of the fleet             163,840   231,200\n",
		"maxmemory of a server          4 GB ", "is cut into 23 parts and one more", "With up to 20 machines",
	} {
		if !strings.Contains(table, part) {
			t.Errorf("plan prints no %q:\n%s", part, table)
		}
	}
	if table := s.run(cluster...).stdout; !strings.Contains(table, "add partitions, or plan with --growth 2") || strings.Contains(table, "GROWN") || strings.Contains(table, "users") {
		t.Errorf("plan without growth and users prints\n%s", table)
	}
}
