package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFleetCheck fails until an agent leads and the directory writes its map to the disk.
func TestFleetCheck(t *testing.T) {
	t.Parallel()
	server := redistest.Durable(t)
	s := shell{t: t, url: fleetURL(server)}
	s.init(specs(member(t), member(t))...)
	s.run("queue", "write", "orders", "--tenant", "a", "--body", "x")

	checked := func(args ...string) (doc check.Report, code int) {
		t.Helper()
		got := s.run(append([]string{"fleet", "check", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.stderr != "" {
			t.Fatalf("fleet check = %+v, want a document alone", got)
		}
		n := check.Count(doc.Findings)
		if got, want := [3]int{doc.Critical, doc.Warning, doc.Note}, [3]int{n[finding.Critical], n[finding.Warning], n[finding.Note]}; got != want {
			t.Errorf("counts %v, want %v", got, want)
		}
		return doc, got.code
	}
	has := func(doc check.Report, name, code string) bool {
		for _, f := range doc.Findings {
			if f.Check == name && f.Code == code {
				return true
			}
		}
		return false
	}
	fsync := func(when string) {
		c := server.Client(t)
		if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue("appendfsync", when).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	fsync("everysec")
	doc, code := checked()
	if code != 1 || doc.OK || !has(doc, "directory", "no_fsync") || !has(doc, "agents", "no_agent") || !has(doc, "tags", "ok") || doc.Findings[0].Severity != finding.Critical {
		t.Errorf("exit code %d, %+v, want two failures first, and the tags looked up", code, doc)
	}

	fsync("always")
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if leads, err := dir.Lead(t.Context(), "somebody", time.Hour); !leads || err != nil {
		t.Fatalf("Lead = %t, %v", leads, err)
	}
	if doc, code := checked("--sample", "0"); code != 0 || !doc.OK || doc.Warning == 0 || has(doc, "tags", "ok") {
		t.Errorf("exit code %d, %+v, want warnings alone, and no tags", code, doc)
	}
	if doc, _ := checked("--all"); !has(doc, "tags", "ok") {
		t.Errorf("no tags were looked up: %+v", doc)
	}

	got := s.run("fleet", "check")
	for _, part := range []string{
		"warning  settings  ", " (partition 1): it has no maxmemory: ", "\n                      CONFIG SET maxmemory, and in its file",
		"ok       agents       agent somebody leads\n", "\n\n0 critical, ",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("fleet check prints no %q:\n%s", part, got.stdout)
		}
	}
	s.refused(2, "bad_usage", "fleet", "check", "--max-snapshot-age", "-1h")
	(shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}).refused(2, "bad_url", "fleet", "check")
}
