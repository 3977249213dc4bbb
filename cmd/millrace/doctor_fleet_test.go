package main

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/directory"
)

func TestDoctorOnFleet(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t, "--server_cpulist", "0"), member(t, "--server_cpulist", "0"))...)
	r, code := examined(t, s.url)
	want := map[string]level{"state": levelOK, "members": levelOK, "nodes": levelNote, "hints": levelOK}
	if diff := cmp.Diff(want, levels(r.Fleet)); diff != "" || code != 0 || !r.OK {
		t.Errorf("exit code %d, levels of the fleet (-want +got):\n%s", code, diff)
	}
	if len(r.Nodes) != 2 || levels(r.Nodes[0].Findings)["scripts"] != levelOK || levels(r.Nodes[1].Findings)["clock"] != levelOK {
		t.Errorf("nodes = %+v, want both masters, in order", r.Nodes)
	}
	if runtime.GOOS == "linux" {
		shared := "CPU 0 is shared by " + r.Nodes[0].Addr + ", " + r.Nodes[1].Addr + ", which are pinned to it"
		if len(r.Host) == 0 || r.Host[0].Level != levelWarn || r.Host[0].Value != shared {
			t.Errorf("host = %+v, want the warning: %s", r.Host, shared)
		}
	}
}

func TestJudgeCPUs(t *testing.T) {
	t.Parallel()
	type findings = []finding
	const ofItsOwn = "When one of them is busy the others wait: give each a CPU of its own with server_cpulist."
	const fewer = "Busy instances wait for each other: run as many as there are CPUs, or more only until machines are added."
	tests := map[string]struct {
		allowed map[string][]int
		want    findings
	}{
		"one":        {map[string][]int{"a": {0}}, findings{{"cpu", levelOK, "1 instance, 1 CPU that they may use", ""}}},
		"apart":      {map[string][]int{"a": {0}, "b": {3}}, findings{{"cpu", levelOK, "2 instances, 2 CPUs that they may use", ""}}},
		"room":       {map[string][]int{"a": {0, 1, 2}, "b": {0, 1, 2}}, findings{{"cpu", levelOK, "2 instances, 3 CPUs that they may use", ""}}},
		"not pinned": {map[string][]int{"a": {0, 1}, "b": {0}}, findings{{"cpu", levelOK, "2 instances, 2 CPUs that they may use", ""}}},
		"same CPU": {
			map[string][]int{"a": {1}, "b": {1}, "c": {0, 1, 2}},
			findings{{"cpu", levelWarn, "CPU 1 is shared by a, b, which are pinned to it", ofItsOwn}},
		},
		"many": {
			map[string][]int{"a": {7}, "b": {7}, "c": {7}, "d": {7}, "e": {7}, "f": {7}},
			findings{
				{"cpu", levelWarn, "CPU 7 is shared by a, b, c, d and 2 more, which are pinned to it", ofItsOwn},
				{"cpu", levelWarn, "6 instances, 1 CPU that they may use", fewer},
			},
		},
		"too many": {
			map[string][]int{"a": {0, 1}, "b": {0, 1}, "c": {0, 1}},
			findings{{"cpu", levelWarn, "3 instances, 2 CPUs that they may use", fewer}},
		},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, judgeCPUs(test.allowed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheckCPUsElsewhere(t *testing.T) {
	t.Parallel()
	// This process is no Redis, and no address of the documentation's is here.
	for _, i := range []instance{{"127.0.0.1:1", ""}, {"127.0.0.1:1", "0"}, {"127.0.0.1:1", "self"}, {"192.0.2.1:1", "1"}, {"nowhere.invalid:1", "1"}} {
		if got := checkCPUs(t.Context(), []instance{i}); got != nil {
			t.Errorf("checkCPUs of %+v = %+v, want nothing", i, got)
		}
	}
	for addr, want := range map[string]bool{"/run/redis.sock": true, "127.0.0.1:7": true, "[::1]:7": true, "192.0.2.1:7": false, "socket": false} {
		if got := isHere(t.Context(), addr); got != want {
			t.Errorf("isHere(%s) = %t, want %t", addr, got, want)
		}
	}
	for list, want := range map[string][]int{"0": {0}, "0-2,5": {0, 1, 2, 5}, "": nil, "0-": nil, "x": nil} {
		if diff := cmp.Diff(want, parseCPUs(list)); diff != "" {
			t.Errorf("parseCPUs(%q) (-want +got):\n%s", list, diff)
		}
	}
}

func TestCheckFleet(t *testing.T) {
	t.Parallel()
	up := func(addr, node string) fleet.MemberStatus {
		return fleet.MemberStatus{Addr: addr, Node: node, PID: 1, State: fleet.Up}
	}
	with := func(change func(s *fleet.Status)) fleet.Status {
		s := fleet.Status{Epoch: 3, State: directory.Full, Partitions: []fleet.PartitionStatus{
			{ID: 0, State: directory.Full, Phase: directory.Open, Master: up("m0", "a"), Replicas: []fleet.MemberStatus{up("r0", "b")}},
			{ID: 1, State: directory.Full, Phase: directory.Open, Master: up("m1", "b"), Replicas: []fleet.MemberStatus{up("r1", "a")}},
		}}
		change(&s)
		return s
	}
	tests := map[string]struct {
		status fleet.Status
		check  string
		level  level
		value  string
	}{
		"state": {with(func(*fleet.Status) {}), "state", levelOK, "full, 2 partitions, epoch 3"},
		"up":    {with(func(*fleet.Status) {}), "members", levelOK, "4 members up"},
		"apart": {with(func(*fleet.Status) {}), "nodes", levelOK, "2 nodes, none with two members of a partition"},
		"heard": {with(func(*fleet.Status) {}), "hints", levelOK, "clients reach all members"},
		"out":   {with(func(s *fleet.Status) { s.State = directory.Out }), "state", levelFail, "out, 2 partitions, epoch 3"},
		"adding": {
			with(func(s *fleet.Status) { s.Partitions[1].Phase = directory.LookUp }),
			"state", levelWarn, "full, 2 partitions, epoch 3, 1 of them not open yet",
		},
		"stranger": {
			with(func(s *fleet.Status) { s.Partitions[1].Replicas[0].State = fleet.Strange }),
			"members", levelFail, "r1, the replica of partition 1, stranger: another server than expected is there, or it has lost its data",
		},
		"behind": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].State = fleet.Behind }),
			"members", levelWarn, "r0, the replica of partition 0, behind: it has a copy, and its master sends it nothing",
		},
		"master down": {
			with(func(s *fleet.Status) {
				s.Partitions[0].Master.State, s.Partitions[0].Master.Error = fleet.Down, "refused"
			}),
			"members", levelFail, "m0, the master of partition 0, down: refused",
		},
		"together": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].Node = "a" }),
			"nodes", levelWarn, "two members of partition 0 are on node a",
		},
		"nameless": {
			with(func(s *fleet.Status) { s.Partitions[0].Replicas[0].Node = "" }),
			"nodes", levelNote, "1 member without the name of a node",
		},
		"hint": {
			with(func(s *fleet.Status) { s.Hints = []directory.Hint{{Addr: "m1", Reporter: "x"}} }),
			"hints", levelWarn, "m1 cannot be reached, a client says",
		},
	}
	for name, test := range tests {
		var got finding
		for _, f := range checkFleet(test.status) {
			if f.Check == test.check {
				got = f
			}
		}
		if got.Level != test.level || got.Value != test.value || (got.Hint == "") != (got.Level == levelOK) {
			t.Errorf("%s: finding %+v, want %s %q, and a hint unless all is well", name, got, test.level, test.value)
		}
	}
}
