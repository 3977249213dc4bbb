package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// grownStatus is a fleet that was doubled once, with two members a partition.
func grownStatus(t *testing.T, partitions int) (fleet.Status, directory.Points) {
	t.Helper()
	half, err := ring.New(ring.Even(partitions / 2)...)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := half.Add(ring.Even(partitions / 2)...)
	if err != nil {
		t.Fatal(err)
	}
	s := fleet.Status{Epoch: 4, State: fleet.Healthy}
	for id, share := range whole.Shares() {
		at := func(node int) fleet.MemberStatus {
			return fleet.MemberStatus{Addr: fmt.Sprintf("10.0.0.%d:%d", node%14, 7000+id), Node: fmt.Sprint("node-", node%14), PID: 1, State: fleet.Up}
		}
		s.Partitions = append(s.Partitions, fleet.PartitionStatus{
			ID: id, State: fleet.Healthy, Phase: directory.Open, Epoch: 3, Generation: id * 2 / partitions, Share: share,
			Master: at(id), Replicas: []fleet.MemberStatus{at(id + 1)}, Memory: 3 << 30, MaxMemory: 4 << 30, Tags: 12345, Busy: 0.25,
		})
	}
	return s, whole.Points()
}

// drawn is what a terminal shows of a fleet.
func drawnFleet(s fleet.Status, points directory.Points) string {
	return drawnDoc(fleetDoc{Status: s}, points)
}

func drawnDoc(doc fleetDoc, points directory.Points) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	drawFleet(w, doc, points)
	w.Flush()
	return b.String()
}

// firstWords returns the first words of the lines that begin with a number.
func firstWords(text string) string {
	return strings.Join(regexp.MustCompile(`(?m)^ *\d+ `).FindAllString(text, -1), "")
}

func TestDrawFleet(t *testing.T) {
	t.Parallel()
	s, points := grownStatus(t, 4)
	s.State, s.Partitions[3].State = fleet.Partial, fleet.Partial
	s.Partitions[3].Replicas[0] = fleet.MemberStatus{Addr: "10.0.0.4:7003", State: fleet.Down, Error: "context deadline exceeded"}
	s.Partitions[1].Replicas[0].Lag = 2048
	s.Partitions[2].MaxMemory = 0
	want := `
           · · 0 · ·
        ···         ···
     ···               ···
     ·      partial      ·
    ·    4 partitions     ·
   ·     2 generations     ·
  3~       8 servers       2
   ·        4 nodes        ·
    ·       epoch 4       ·
     ·                   ·
     ···               ···
        ···         ···
           · · 1 · ·

~ partial: a replica does not serve   ! read-only   ✗ out

PARTITION  SHARE            STATE    MEMORY          THREAD        MEMBERS
0           25.0% ████████  healthy  3 GB of 4 GB    25.0%         master   10.0.0.0:7000 on node-0
  gen 0    12,345 tags      epoch 3  ▕██████  ▏ ◀    ▕██      ▏    replica  10.0.0.1:7000 on node-1, in step
2           25.0% ████████  healthy  3 GB, no limit  25.0%         master   10.0.0.2:7002 on node-2
  gen 1    12,345 tags      epoch 3                  ▕██      ▏ ◀  replica  10.0.0.3:7002 on node-3, in step
1           25.0% ████████  healthy  3 GB of 4 GB    25.0%         master   10.0.0.1:7001 on node-1
  gen 0    12,345 tags      epoch 3  ▕██████  ▏ ◀    ▕██      ▏    replica  10.0.0.2:7001 on node-2, 2 kB behind
3           25.0% ████████  partial  3 GB of 4 GB    25.0%         master   10.0.0.3:7003 on node-3
  gen 1    12,345 tags      epoch 3  ▕██████  ▏ ◀    ▕██      ▏    replica  10.0.0.4:7003, DOWN

◀ marks the limit that is nearer

49,380 tags, 12 GB; nearest to a limit is partition 0: memory at 75.0%
Without maxmemory a server has no limit of memory but the machine's, and sends no new tags on.

10.0.0.4:7003 (partition 3): the replica is down: it does not answer
`
	if got := "\n" + drawnFleet(s, points); got != want {
		t.Errorf("drawn is\n%s\nwant\n%s", got, want)
	}
}

// TestDrawFleetWithAgents has what agents left word of, in the zone of who looks.
func TestDrawFleetWithAgents(t *testing.T) {
	t.Parallel()
	s, points := grownStatus(t, 2)
	at := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	history := "8371445a1d5a1e5a6b2e5b0a5f0c3b0d9e8f7a6b"
	doc := fleetDoc{
		Status: s,
		Snapshots: []snapshotDoc{{
			Partition: 1,
			Saved:     &savedDoc{Age: 192_000, Addr: "10.0.0.1:7001", Node: "node-1", Took: 40},
			Archived:  &archivedDoc{Age: 7_200_000, File: "p1.rdb", Bytes: 4096},
			Failed:    &failedDoc{Age: 70, Addr: "10.0.0.1:7001", Why: "the disk is full"},
		}},
		Events: []directory.Event{
			{At: at.Add(2 * time.Second), Partition: 1, Epoch: 4, What: "healthy: 10.0.0.1:7001, at offset 64 of " + history + " leads, in place of 10.0.0.2:7001, after 1.6s"},
			{At: at, Partition: -1, Epoch: 3, What: "what is said of all"},
		},
	}
	got := drawnDoc(doc, points)
	_, got, _ = strings.Cut(got, "\n\n")
	want := `
PARTITION  SHARE            STATE    MEMORY        THREAD      SNAPSHOT        MEMBERS
0           50.0% ████████  healthy  3 GB of 4 GB  25.0%       NONE            master   10.0.0.0:7000 on node-0
  gen 0    12,345 tags      epoch 3  ▕██████  ▏ ◀  ▕██      ▏                  replica  10.0.0.1:7000 on node-1, in step
1           50.0% ████████  healthy  3 GB of 4 GB  25.0%       3m12s           master   10.0.0.1:7001 on node-1
  gen 1    12,345 tags      epoch 3  ▕██████  ▏ ◀  ▕██      ▏  archive 2h0m0s  replica  10.0.0.2:7001 on node-2, in step

◀ marks the limit that is nearer

24,690 tags, 6 GB of 8 GB; nearest to a limit is partition 0: memory at 75.0%
The oldest snapshot is that of partition 1, 3m12s old. There is none of 0.
Saving partition 1 failed 1s ago: the disk is full

WHEN                 PARTITION  EPOCH  WHAT HAPPENED
2026-11-21 02:00:02  1          4      healthy: 10.0.0.1:7001, at offset 64 of 8371445… leads, in place of 10.0.0.2:7001, after 1.6s
2026-11-21 02:00:00  all        3      what is said of all
`
	if "\n"+got != want {
		t.Errorf("drawn is\n%s\nwant\n%s", got, want)
	}

	for range 12 {
		doc.Events = append(doc.Events, doc.Events[0])
	}
	if got := drawnDoc(doc, points); !strings.HasSuffix(got, "\nand 4 before; --json has them\n") || strings.Count(got, "10.0.0.2:7001, after") != 9 {
		t.Errorf("of 14 events are drawn\n%s\nwant ten, and that there are 4 more", got)
	}
	many, points := grownStatus(t, 160)
	doc.Status = many
	if got := drawnDoc(doc, points); !strings.Contains(got, "  3m12s  10.0.0.1:7001@node-1 ") || !strings.Contains(got, " old. There is none of 159 partitions.\n") {
		t.Errorf("the snapshots of many partitions are drawn as\n%.600s", got)
	}
}

func TestDrawManyPartitions(t *testing.T) {
	t.Parallel()
	s, points := grownStatus(t, 160)
	s.State, s.Partitions[7].State = fleet.ReadOnly, fleet.ReadOnly
	s.Partitions[7].Master.State, s.Partitions[7].Master.PID = fleet.Down, 0
	got := drawnFleet(s, points)
	if !strings.HasPrefix(got, "read-only: 160 partitions, 2 generations, 320 servers, 14 nodes, epoch 4\n\nNO.  GEN  EPOCH ") {
		t.Errorf("begins with %.200s", got)
	}
	for _, part := range []string{
		"\n 0 0 3 0.6% ████ healthy 12,345 3 GB of 4 GB 25.0% memory 75.0% ███▊ 10.0.0.0:7000@node-0 10.0.0.1:7000@node-1\n 80 1 3 ",
		"\n 7 0 3 0.6% ████ read-only 12,345 - - - 10.0.0.7:7007@node-7 DOWN 10.0.0.8:7007@node-8\n",
		"\n1,975,200 tags, 480 GB of 640 GB; nearest to a limit is partition 0: memory at 75.0%\n",
		"\n10.0.0.7:7007 (partition 7): the master is down: it does not answer\n",
	} {
		if !strings.Contains(regexp.MustCompile(` +`).ReplaceAllString(got, " "), part) {
			t.Errorf("prints no %q:\n%.3000s", part, got)
		}
	}
	for line := range strings.Lines(got) {
		if width := utf8.RuneCountInString(line); width > 140 {
			t.Errorf("a line of %d characters:\n%s", width, line)
		}
	}
	if rows := len(strings.Fields(firstWords(got))); rows != 160 {
		t.Errorf("%d rows, want 160", rows)
	}
}

// TestDrawRing looks for each number where there is room, and for none otherwise.
func TestDrawRing(t *testing.T) {
	t.Parallel()
	for partitions := 2; partitions < manyPartitions; partitions += 2 {
		s, points := grownStatus(t, partitions)
		circle, _, _ := strings.Cut(drawnFleet(s, points), "PARTITION")
		for id := range partitions {
			if !regexp.MustCompile(fmt.Sprintf(`(?m)(^|[ ·])%d($|[ ·])`, id)).MatchString(circle) {
				t.Errorf("of %d partitions, %d is not on the ring:\n%s", partitions, id, circle)
			}
		}
	}
	heavy, err := ring.New(500, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := grownStatus(t, 2)
	if got := drawnFleet(s, heavy.Points()); !strings.HasPrefix(got, "healthy, 2 partitions, 2 generations, 4 servers") {
		t.Errorf("501 points are drawn:\n%s", got)
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{-1: "", 0: "", 0.01: "", 0.125: "▌", 0.25: "█", 0.3: "█▎", 0.99: "████", 1: "████", 7: "████"} {
		if got := bar(part, 4); got != want {
			t.Errorf("bar(%v, 4) = %q, want %q", part, got, want)
		}
	}
	for part, want := range map[float64]string{0: "0%", 0.006: "0.6%", 0.125: "12.5%", 0.9994: "99.9%", 0.9996: "100%", 1: "100%", 1.5: "150%"} {
		if got := percent(part); got != want {
			t.Errorf("percent(%v) = %q, want %q", part, got, want)
		}
	}
}
