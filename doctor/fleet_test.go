package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

func TestCheckFleet(t *testing.T) {
	t.Parallel()
	up := func(addr, node string) fleet.MemberStatus {
		return fleet.MemberStatus{Addr: addr, Node: node, PID: 1, State: fleet.Up}
	}
	with := func(change func(s *fleet.Status)) fleet.Status {
		s := fleet.Status{Epoch: 3, State: fleet.Healthy, Partitions: []fleet.PartitionStatus{
			{ID: 0, State: fleet.Healthy, Phase: directory.Open, Master: up("m0", "a"), Replicas: []fleet.MemberStatus{up("r0", "b")}},
			{ID: 1, State: fleet.Healthy, Phase: directory.Open, Master: up("m1", "b"), Replicas: []fleet.MemberStatus{up("r1", "a")}},
		}}
		change(&s)
		return s
	}
	tests := map[string]struct {
		status fleet.Status
		check  string
		level  Level
		value  string
	}{
		"state": {with(func(*fleet.Status) {}), "state", OK, "healthy, 2 partitions, epoch 3"},
		"up":    {with(func(*fleet.Status) {}), "members", OK, "4 members up"},
		"apart": {with(func(*fleet.Status) {}), "nodes", OK, "2 nodes, none with two members of a partition"},
		"out":   {with(func(s *fleet.Status) { s.State = fleet.Out }), "state", Fail, "out, 2 partitions, epoch 3"},
		"adding": {
			with(func(s *fleet.Status) { s.Partitions[1].Phase = directory.LookUp }),
			"state", Warn, "healthy, 2 partitions, epoch 3, 1 of them not open yet",
		},
		"stranger": {
			with(func(s *fleet.Status) { s.Partitions[1].Replicas[0].State = fleet.Unknown }),
			"members", Fail, "r1, the replica of partition 1, stranger: another server than expected is there, or it has lost its data",
		},
		"behind": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].State = fleet.Behind }),
			"members", Warn, "r0, the replica of partition 0, behind: it has a copy, and its master sends it nothing",
		},
		"master down": {
			with(func(s *fleet.Status) {
				s.Partitions[0].Master.State, s.Partitions[0].Master.Error = fleet.Down, "refused"
			}),
			"members", Fail, "m0, the master of partition 0, down: refused",
		},
		"together": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].Node = "a" }),
			"nodes", Warn, "two members of partition 0 are on node a",
		},
		"nameless": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].Node = "" }),
			"nodes", Note, "1 member without the name of a node",
		},
	}
	for name, test := range tests {
		var got Finding
		for _, f := range checkFleet(test.status) {
			if f.Check == test.check {
				got = f
			}
		}
		if got.Level != test.level || got.Value != test.value || (got.Hint == "") != (got.Level == OK) {
			t.Errorf("%s: finding %+v, want %s %q, and a hint unless all is well", name, got, test.level, test.value)
		}
	}
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	s := fleet.Status{
		State: fleet.Out,
		Partitions: []fleet.PartitionStatus{{
			Master:   fleet.MemberStatus{Addr: "m", State: fleet.Down, Error: "context deadline exceeded"},
			Replicas: []fleet.MemberStatus{{Addr: "r", State: fleet.Up}, {Addr: "s", State: fleet.Loading}},
		}},
	}
	want := []string{
		"m, the master of partition 0, down: it does not answer",
		"s, the replica of partition 0, loading: it reads its data from disk",
	}
	if diff := cmp.Diff(want, Troubles(s)); diff != "" {
		t.Errorf("Troubles (-want +got):\n%s", diff)
	}
	if got := Troubles(fleet.Status{}); got != nil {
		t.Errorf("Troubles of a fleet without = %q, want none", got)
	}
}
