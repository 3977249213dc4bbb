package overview

import (
	"fmt"
	"regexp"
	"slices"
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
func grownStatus(t *testing.T, partitions int) fleet.Status {
	t.Helper()
	half, err := ring.New(slices.Repeat([]int{1}, partitions/2)...)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := half.Add(slices.Repeat([]int{1}, partitions/2)...)
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
	return s
}

// shown returns the text of a fleet on a terminal.
func shown(doc Fleet) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	doc.Table(w)
	w.Flush()
	return b.String()
}

// firstWords returns the first words of the lines that begin with a number.
func firstWords(text string) string {
	return strings.Join(regexp.MustCompile(`(?m)^ *\d+ `).FindAllString(text, -1), "")
}

func TestFleetTable(t *testing.T) {
	t.Parallel()
	s := grownStatus(t, 4)
	s.State, s.Partitions[3].State = fleet.Partial, fleet.Partial
	s.Partitions[3].Replicas[0] = fleet.MemberStatus{Addr: "10.0.0.4:7003", State: fleet.Down, Error: "context deadline exceeded"}
	s.Partitions[1].Replicas[0].Lag = 2048
	s.Partitions[0].Replicas[0].State, s.Partitions[0].Replicas[0].Lag = fleet.Behind, 4096
	s.Partitions[2].MaxMemory = 0
	want := `
partial: 4 partitions, 2 generations, 8 servers, 4 nodes, epoch 4

NO.  GEN  EPOCH  SHARE  STATE    TAGS    MEMORY        THREAD  NEARER LIMIT  MASTER                REPLICAS
  0    0      3  25.0%  healthy  12,345  3 GB of 4 GB  25.0%   memory 75.0%  10.0.0.0:7000@node-0  10.0.0.1:7000@node-1 BEHIND -4 kB
  1    0      3  25.0%  healthy  12,345  3 GB of 4 GB  25.0%   memory 75.0%  10.0.0.1:7001@node-1  10.0.0.2:7001@node-2 -2 kB
  2    1      3  25.0%  healthy  12,345  3 GB          25.0%   thread 25.0%  10.0.0.2:7002@node-2  10.0.0.3:7002@node-3
  3    1      3  25.0%  partial  12,345  3 GB of 4 GB  25.0%   memory 75.0%  10.0.0.3:7003@node-3  10.0.0.4:7003 DOWN

49,380 tags, 12 GB; nearest to a limit is partition 0: memory at 75.0%
Without maxmemory a server has no limit of memory but the machine's, and sends no new tags on.

10.0.0.1:7000 (partition 0): the replica is behind: it has a copy, and its master sends it nothing
10.0.0.4:7003 (partition 3): the replica is down: it does not answer
`
	if got := "\n" + shown(Fleet{Status: s}); got != want {
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}
}

// TestFleetTableWithAgents shows the log of agents, in the reader's time zone.
func TestFleetTableWithAgents(t *testing.T) {
	t.Parallel()
	s := grownStatus(t, 2)
	at := time.Date(2026, 11, 21, 2, 0, 0, 0, time.Local)
	doc := Fleet{
		Status: s,
		Snapshots: []Snapshot{{
			Partition: 1,
			Saved:     &Saved{Age: 192_000, Addr: "10.0.0.1:7001", Node: "node-1", Took: 40},
			Archived:  &Archived{Age: 7_200_000, File: "p1.rdb", Bytes: 4096},
			Failed:    &Failed{Age: 70, Addr: "10.0.0.1:7001", Why: "the disk is full"},
		}},
		Events: []directory.Event{
			{At: at.Add(2 * time.Second), Partition: 1, Epoch: 4, What: "healthy: 10.0.0.1:7001 leads, in place of 10.0.0.2:7001, after 1.6s. No data is lost"},
			{At: at, Partition: -1, Epoch: 3, What: "what is said of all"},
		},
	}
	got := shown(doc)
	_, got, _ = strings.Cut(got, "\n\n")
	want := `
NO.  GEN  EPOCH  SHARE  STATE    TAGS    MEMORY        THREAD  NEARER LIMIT  SAVED  MASTER                REPLICAS
  0    0      3  50.0%  healthy  12,345  3 GB of 4 GB  25.0%   memory 75.0%  NONE   10.0.0.0:7000@node-0  10.0.0.1:7000@node-1
  1    1      3  50.0%  healthy  12,345  3 GB of 4 GB  25.0%   memory 75.0%  3m12s  10.0.0.1:7001@node-1  10.0.0.2:7001@node-2

24,690 tags, 6 GB of 8 GB; nearest to a limit is partition 0: memory at 75.0%
The oldest snapshot is that of partition 1, 3m12s old. There is none of 0.
Saving partition 1 failed 1s ago: the disk is full

WHEN                 PARTITION  EPOCH  WHAT HAPPENED
2026-11-21 02:00:02  1          4      healthy: 10.0.0.1:7001 leads, in place of 10.0.0.2:7001, after 1.6s. No data is lost
2026-11-21 02:00:00  all        3      what is said of all
`
	if "\n"+got != want {
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}

	for range 12 {
		doc.Events = append(doc.Events, doc.Events[0])
	}
	if got := shown(doc); !strings.HasSuffix(got, "\nand 4 before; --json has them\n") || strings.Count(got, "10.0.0.2:7001, after") != 9 {
		t.Errorf("of 14 events are shown\n%s\nwant ten, and that there are 4 more", got)
	}
	doc.Status = grownStatus(t, 160)
	if got := shown(doc); !strings.Contains(got, "  3m12s  10.0.0.1:7001@node-1 ") || !strings.Contains(got, " old. There is none of 159 partitions.\n") {
		t.Errorf("the snapshots of many partitions are shown as\n%.600s", got)
	}
}

func TestFleetTableOfManyPartitions(t *testing.T) {
	t.Parallel()
	s := grownStatus(t, 160)
	s.State, s.Partitions[7].State = fleet.ReadOnly, fleet.ReadOnly
	s.Partitions[7].Master.State, s.Partitions[7].Master.PID = fleet.Down, 0
	got := shown(Fleet{Status: s})
	if !strings.HasPrefix(got, "read-only: 160 partitions, 2 generations, 320 servers, 14 nodes, epoch 4\n\nNO.  GEN  EPOCH ") {
		t.Errorf("begins with %.200s", got)
	}
	for _, part := range []string{
		"\n 0 0 3 0.6% healthy 12,345 3 GB of 4 GB 25.0% memory 75.0% 10.0.0.0:7000@node-0 10.0.0.1:7000@node-1\n 1 0 3 ",
		"\n 7 0 3 0.6% read-only 12,345 - - - 10.0.0.7:7007@node-7 DOWN 10.0.0.8:7007@node-8\n",
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

func TestPercent(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{0: "0%", 0.006: "0.6%", 0.125: "12.5%", 0.9994: "99.9%", 0.9996: "100%", 1: "100%", 1.5: "150%"} {
		if got := percent(part); got != want {
			t.Errorf("percent(%v) = %q, want %q", part, got, want)
		}
	}
}
