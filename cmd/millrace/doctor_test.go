package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/doctor"
)

// examined runs the doctor and returns its report and exit code.
func examined(t *testing.T, url string) (doctor.Report, int) {
	t.Helper()
	got := shell{t: t, url: url}.run("doctor", "--json")
	if got.stderr != "" || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("doctor = %+v, want one line on stdout", got)
	}
	var r doctor.Report
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatal(err)
	}
	return r, got.code
}

// severities returns the findings as check -> severity.
func severities(findings []doctor.Finding) map[string]doctor.Severity {
	m := make(map[string]doctor.Severity)
	for _, f := range findings {
		m[f.Check] = f.Severity
	}
	return m
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	for policy, exit := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		server := redistest.Start(t, redistest.Options{AOF: true, MaxMemory: "64mb", Policy: policy})
		r, code := examined(t, server.URL())
		if code != exit || r.OK != (exit == 0) {
			t.Errorf("%s: exit code %d, ok %t, want %d, %t", policy, code, r.OK, exit, exit == 0)
		}
		if len(r.Nodes) != 1 || r.Nodes[0].Addr != server.Addr() {
			t.Errorf("%s: nodes = %+v, want %s", policy, r.Nodes, server.Addr())
		}
	}
}

func TestDoctorOnFleet(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	r, code := examined(t, s.url)
	if code != 1 || r.OK || severities(r.Fleet)["members"] != doctor.OK || len(r.Nodes) != 2 {
		t.Errorf("exit code %d, report %+v, want one of two partitions and the fleet", code, r)
	}
	for _, f := range r.Fleet {
		if f.Severity == doctor.Critical && f.Check != "agents" && f.Check != "directory" { // there is no agent, nor an append-only file
			t.Errorf("of a fleet without trouble: %+v", f)
		}
	}
}

func TestDoctorForPeople(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{
		AOF: true, MaxMemory: "64mb", Policy: "allkeys-lru", Args: []string{"--slowlog-log-slower-than", "-1"}, // the machine may be slow
	})
	got := shell{t: t, url: server.URL()}.run("doctor")
	for _, part := range []string{
		server.Addr() + "\n", "\n  ok        version", "\n  critical  eviction     allkeys-lru\n                         A full server",
		"\nnot fit for work: 1 critical, 0 warnings\n",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("doctor does not print %q:\n%s", part, got.stdout)
		}
	}
	if got.code != 1 || got.stderr != "" {
		t.Errorf("doctor exits with %d and says %q, want 1 and nothing", got.code, got.stderr)
	}
}
