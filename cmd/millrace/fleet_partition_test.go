package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/redistest"
)

// TestFleetPartitionRemove: a partition is retired, and then removed after a question.
func TestFleetPartitionRemove(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	for _, tag := range []string{"user:1", "user:2", "user:3", "user:4"} {
		s.want("1 new, 0 lowered\n", "ick", "add", tag, "1", "a")
	}
	f := s.refused(1, "needed", "fleet", "partition", "remove", "1", "--yes")
	if !strings.Contains(f.Hint, "fleet rebalance --from 1 --retire") {
		t.Errorf("a partition in use: %+v", f)
	}
	s.refused(1, "not_found", "fleet", "partition", "remove", "2", "--yes")
	s.moved("--from", "1", "--retire")
	if got := s.feed("n\n", "fleet", "partition", "remove", "1"); got.code != 1 || !strings.Contains(got.stderr, "Remove partition 1 from the fleet, with the servers at [127.0.0.1:") {
		t.Errorf("with no for an answer: %+v", got)
	}
	got := s.run("fleet", "partition", "remove", "1", "--yes", "--json")
	var doc removedDoc
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || doc.Partition != 1 || doc.Partitions != 1 || len(doc.Servers) != 1 {
		t.Fatalf("remove = %+v", got)
	}
	if status := answer[fleet.Status](s, "fleet", "show"); len(status.Partitions) != 1 || status.State != fleet.Healthy {
		t.Errorf("the fleet is %+v", status)
	}
	s.want("0 new, 0 lowered\n", "ick", "add", "user:1", "1", "a")
}
