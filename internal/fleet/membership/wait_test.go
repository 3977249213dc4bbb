package membership

import (
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestAMapWithFewerPartitions waits for a plan in a directory that was restored from an
// older state: it lacks a partition, and the others are reported.
func TestAMapWithFewerPartitions(t *testing.T) {
	t.Parallel()
	task := directory.Task{Plan: "p", Remove: "c"}
	was := &directory.Map{Partitions: []directory.Partition{
		{ID: 0, Master: directory.Member{Addr: "a"}, Task: &directory.Task{Plan: "p", Remove: "x"}},
		{ID: 1, Master: directory.Member{Addr: "b"}},
	}}
	now := was.Clone()
	now.Partitions, now.Partitions[0].Task = now.Partitions[:1], nil
	var told []string
	c := &Config{Progress: func(step string) { told = append(told, step) }}
	begun := map[int]directory.Task{0: *was.Partitions[0].Task, 1: task}
	c.compare(was, now, begun)
	if err := lost(now, begun); err != nil || len(told) != 1 {
		t.Errorf("reported %v, and lost = %v, want that partition 0 is done, and nothing lost", told, err)
	}
}
