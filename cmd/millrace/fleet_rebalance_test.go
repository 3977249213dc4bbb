package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestFleetRebalance moves tags with their data, and gives a partition up.
func TestFleetRebalance(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := fleetShell(t)
	s.init(append(specs(member(t), member(t)), "--max-fill", "90")...)
	var here string // a tag of partition 0
	for i := range 8 {
		tag := fmt.Sprint("user:", i)
		s.want("1 new, 0 lowered\n", "ick", "add", tag, "1", "a")
		if answer[overview.Location](s, "fleet", "locate", tag).Partition == 0 {
			here = tag
		}
	}
	if here == "" {
		t.Fatal("none of 8 tags is on partition 0")
	}
	got := s.run("fleet", "rebalance", here, "--to", "1")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "moved 1 tag with 3 keys, ") || !strings.Contains(got.stdout, "writers of a tag waited for ") ||
		!strings.Contains(got.stderr, "msg=moving tags=1 of=1 keys=3 ") {
		t.Errorf("rebalance = %+v", got)
	}
	if l := answer[overview.Location](s, "fleet", "locate", here); l.Partition != 1 {
		t.Errorf("%s is on partition %d, want 1", here, l.Partition)
	}
	s.want("0 new, 0 lowered\n", "ick", "add", here, "1", "a")

	doc := s.moved("--from", "1", "--retire")
	if status := s.isFull(); doc.Tags == 0 || status.Partitions[0].Tags < 8 || status.Partitions[1].Tags != 0 || len(doc.Kept) != 0 {
		t.Errorf("moved %+v, and the partitions have %d and %d tags, want all on 0", doc, status.Partitions[0].Tags, status.Partitions[1].Tags)
	}
	f := s.refusedAfterLog(2, "bad_argument", "fleet", "rebalance", here, "--to", "1")
	if !strings.Contains(f.Error, "partition 1 takes no tags: its phase is closed") {
		t.Errorf("moving to a retired partition says %+v", f)
	}
	got = s.run("fleet", "rebalance", "nobody", "--to", "0")
	if got.code != 1 || !strings.Contains(got.stdout, `nobody stayed where it was: the fleet does not know "nobody"`) || !strings.Contains(got.stderr, "1 of 1 tags were not moved") {
		t.Errorf("rebalance of a tag that is nowhere = %+v", got)
	}
}

// moved moves tags, and returns the document on standard output.
func (s shell) moved(args ...string) (doc overview.Moved) {
	s.t.Helper()
	got := s.run(append([]string{"--json", "fleet", "rebalance"}, args...)...)
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 0 {
		s.t.Fatalf("rebalance %v = %+v, want a document", args, got)
	}
	return doc
}

func TestFleetRebalanceRefuses(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	for _, args := range [][]string{
		{},
		{"a"},
		{"a", "--to", "0", "--to", "1"},
		{"a", "--to", "0", "--from", "1"},
		{"a", "--to", "0", "--share", "0.5"},
		{"a", "--to", "0", "--retire"},
		{"--from", "0", "--share", "2"},
		{"--from", "0", "--at-once", "-1"},
	} {
		s.refused(2, "bad_usage", append([]string{"fleet", "rebalance"}, args...)...)
	}
	s.refused(1, "not_found", "fleet", "rebalance", "--from", "2")
	s.refused(1, "not_found", "fleet", "rebalance", "a", "--to", "2")
}
