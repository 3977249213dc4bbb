package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace/millrace/doctor"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

type fleetShow struct{}

// Help shows examples.
func (*fleetShow) Help() string {
	return `It asks every member; one that does not answer within 2 seconds is down. Partitions come clockwise, as they lie on the ring. A partition has two limits: its memory, and the one thread of its master; which one is nearer is marked. The thread's use is an average since the server started. An epoch is one more with each change of the map, or of a partition's master; what agents did and could not do comes last, newest first.

Examples:

    millrace fleet show
    millrace fleet show --json | jq -r '.partitions[].master.addr'`
}

// Run shows the fleet.
func (*fleetShow) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) error { return a.showFleet(ctx, f, "") })
}

// manyPartitions is from how many partitions on each has only one line.
const manyPartitions = 24

// drawFleet writes a fleet for people.
func drawFleet(w io.Writer, doc fleetDoc, points directory.Points) {
	s := doc.Status
	order := clockwise(s, points)
	if len(order) < manyPartitions {
		drawRing(w, points, s)
		fmt.Fprintln(w)
		drawPartitions(w, order, doc)
		fmt.Fprintf(w, "\n%s marks the limit that is nearer\n", strings.TrimSpace(nearer))
	} else {
		fmt.Fprintf(w, "%s: %s\n\n", s.State, strings.Join(summary(s), ", "))
		listPartitions(w, order, doc)
	}
	fmt.Fprintln(w)
	drawTotals(w, s)
	drawExposure(w, doc)
	drawTroubles(w, s)
	drawEvents(w, doc.Events)
}

// clockwise returns the partitions in the order of their first points on the ring.
func clockwise(s fleet.Status, points directory.Points) []fleet.PartitionStatus {
	order := make([]fleet.PartitionStatus, 0, len(s.Partitions))
	seen := make([]bool, len(s.Partitions))
	for _, p := range points {
		if id := p.Partition; id < len(seen) && !seen[id] {
			order, seen[id] = append(order, s.Partitions[id]), true
		}
	}
	return order
}

// drawPartitions writes a table in which a partition has a line for each member,
// and two at least.
func drawPartitions(w io.Writer, order []fleet.PartitionStatus, doc fleetDoc) {
	greatest := greatestShare(order)
	fmt.Fprintf(w, "PARTITION\tSHARE\tSTATE\tMEMORY\tTHREAD\t%sMEMBERS\n", doc.column("SNAPSHOT"))
	for _, p := range order {
		members := memberLines(p)
		first, second := limitCells(p)
		saved, archived := snapshotOf(doc.Snapshots, p.ID).cells()
		fmt.Fprintf(w, "%d\t%6s %s\t%s\t%s\t%s\t%s%s\n",
			p.ID, percent(p.Share), bar(p.Share/greatest, 8), stateOf(p), first[0], first[1], doc.column(saved), members[0])
		fmt.Fprintf(w, "  gen %d\t%s\tepoch %d\t%s\t%s\t%s%s\n",
			p.Generation, readable.Count(p.Tags, "tag"), p.Epoch, second[0], second[1], doc.column(archived), members[1])
		for _, member := range members[2:] {
			fmt.Fprintf(w, "\t\t\t\t\t%s%s\n", doc.column(""), member)
		}
	}
}

// memberLines returns a line for each member, and at least two lines.
func memberLines(p fleet.PartitionStatus) []string {
	lines := []string{"master   " + memberText(p.Master, true)}
	for _, r := range p.Replicas {
		lines = append(lines, "replica  "+memberText(r, false))
	}
	if len(lines) == 1 {
		lines = append(lines, "no replica")
	}
	return lines
}

// memberText writes where a member is, and how it is unless all is well.
func memberText(m fleet.MemberStatus, master bool) string {
	words := m.Addr
	if m.Node != "" {
		words += " on " + m.Node
	}
	switch {
	case m.State == fleet.Up && master:
		return words
	case m.State == fleet.Up && m.Lag == 0:
		return words + ", in step"
	case m.State == fleet.Up:
		return words + ", " + readable.Bytes(m.Lag) + " behind"
	case m.State == fleet.Behind:
		return words + ", CUT OFF " + readable.Bytes(m.Lag) + " behind"
	}
	return words + ", " + strings.ToUpper(string(m.State))
}

// nearer marks the limit that is nearer.
const nearer = " ◀"

// limitCells returns two lines each for memory and thread: what is used, and a bar.
func limitCells(p fleet.PartitionStatus) (first, second [2]string) {
	if p.Master.PID == 0 {
		return [2]string{"-", "-"}, second
	}
	first = [2]string{readable.Bytes(p.Memory) + ", no limit", percent(p.Busy)}
	fill, limited := memoryFill(p)
	if limited {
		first[0] = readable.Bytes(p.Memory) + " of " + readable.Bytes(p.MaxMemory)
		second[0] = gauge(fill)
	}
	second[1] = gauge(p.Busy)
	if nearerLimit(p) == "memory" {
		second[0] += nearer
	} else {
		second[1] += nearer
	}
	return first, second
}

// memoryFill returns how full of its maxmemory a partition is, if it has one.
func memoryFill(p fleet.PartitionStatus) (float64, bool) {
	if p.MaxMemory == 0 {
		return 0, false
	}
	return float64(p.Memory) / float64(p.MaxMemory), true
}

// nearerLimit says which of its limits a partition will reach first, if it goes on
// as it does: "memory" or "thread".
func nearerLimit(p fleet.PartitionStatus) string {
	if fill, limited := memoryFill(p); limited && fill >= p.Busy {
		return "memory"
	}
	return "thread"
}

// use returns how near its nearer limit a partition is.
func use(p fleet.PartitionStatus) float64 {
	fill, _ := memoryFill(p)
	return max(fill, p.Busy)
}

// stateOf says what a partition can do, and what is unusual about its phase.
func stateOf(p fleet.PartitionStatus) string {
	switch p.Phase {
	case directory.LookUp:
		return string(p.State) + ", being added"
	case directory.Closed:
		return string(p.State) + ", closed"
	case directory.Open:
	}
	return string(p.State)
}

// listPartitions writes a table in which a partition has one line.
func listPartitions(w io.Writer, order []fleet.PartitionStatus, doc fleetDoc) {
	greatest := greatestShare(order)
	fmt.Fprintf(w, "NO.\tGEN\tEPOCH\tSHARE\tSTATE\tTAGS\tMEMORY\tTHREAD\tNEARER LIMIT\t%sMASTER\tREPLICAS\n", doc.column("SAVED"))
	for _, p := range order {
		memory, thread, limit := "-", "-", "-"
		if p.Master.PID != 0 {
			memory, thread = readable.Bytes(p.Memory), percent(p.Busy)
			if p.MaxMemory > 0 {
				memory += " of " + readable.Bytes(p.MaxMemory)
			}
			limit = fmt.Sprintf("%s %4s %s", nearerLimit(p), percent(use(p)), bar(use(p), 5))
		}
		replicas := make([]string, len(p.Replicas))
		for i, r := range p.Replicas {
			replicas[i] = memberWord(r)
		}
		saved, _ := snapshotOf(doc.Snapshots, p.ID).cells()
		fmt.Fprintf(w, "%3d\t%3d\t%5d\t%5s %s\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s\n",
			p.ID, p.Generation, p.Epoch, percent(p.Share), bar(p.Share/greatest, 4), stateOf(p), readable.Number(p.Tags), memory, thread, limit,
			doc.column(saved), memberWord(p.Master), strings.Join(replicas, ", "))
	}
}

// memberWord writes where a member is as fleet init takes it, and how it is unless
// it serves, or how far it is behind.
func memberWord(m fleet.MemberStatus) string {
	word := m.Addr
	if m.Node != "" {
		word += "@" + m.Node
	}
	switch {
	case m.State != fleet.Up:
		word += " " + strings.ToUpper(string(m.State))
	case m.Lag > 0:
		word += " -" + readable.Bytes(m.Lag)
	}
	return word
}

// summary says how much of everything there is.
func summary(s fleet.Status) []string {
	servers, nodes := 0, map[string]bool{}
	generations := 0
	for _, p := range s.Partitions {
		generations = max(generations, p.Generation+1)
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			servers++
			nodes[m.Node] = true
		}
	}
	delete(nodes, "")
	words := []string{readable.Count(len(s.Partitions), "partition")}
	if generations > 1 {
		words = append(words, readable.Count(generations, "generation"))
	}
	words = append(words, readable.Count(servers, "server"))
	if len(nodes) > 0 {
		words = append(words, readable.Count(len(nodes), "node"))
	}
	return append(words, "epoch "+strconv.FormatInt(s.Epoch, 10))
}

// drawTotals writes what all partitions have together, and the fullest one.
func drawTotals(w io.Writer, s fleet.Status) {
	var memory, limit, tags int64
	unlimited := false
	fullest := s.Partitions[0]
	for _, p := range s.Partitions {
		memory, limit, tags = memory+p.Memory, limit+p.MaxMemory, tags+p.Tags
		unlimited = unlimited || p.Master.PID != 0 && p.MaxMemory == 0
		if use(p) > use(fullest) {
			fullest = p
		}
	}
	fmt.Fprintf(w, "%s, %s", readable.Count(tags, "tag"), readable.Bytes(memory))
	if !unlimited {
		fmt.Fprintf(w, " of %s", readable.Bytes(limit))
	}
	fmt.Fprintf(w, "; nearest to a limit is partition %d: %s at %s\n", fullest.ID, nearerLimit(fullest), percent(use(fullest)))
	if unlimited {
		fmt.Fprintln(w, "Without maxmemory a server has no limit of memory but the machine's, and sends no new tags on.")
	}
}

// drawTroubles writes why members do not serve, and what clients cannot reach.
func drawTroubles(w io.Writer, s fleet.Status) {
	if lines := doctor.Troubles(s); len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	}
}

func greatestShare(order []fleet.PartitionStatus) float64 {
	greatest := 0.0
	for _, p := range order {
		greatest = max(greatest, p.Share)
	}
	return greatest
}

// percent writes a part of a whole: "0.6%", "12.5%", "78%".
func percent(part float64) string {
	digits := 1
	if part >= 0.9995 || part == 0 {
		digits = 0
	}
	return strconv.FormatFloat(100*part, 'f', digits, 64) + "%"
}

// gauge writes a bar with its frame: "▕██▎     ▏".
func gauge(part float64) string {
	const width = 8
	drawn := bar(part, width)
	return "▕" + drawn + strings.Repeat(" ", width-len([]rune(drawn))) + "▏"
}

// bar draws a part of a width of characters, to an eighth of one.
func bar(part float64, width int) string {
	eighths := int(min(max(part, 0), 1)*float64(8*width) + 0.5)
	drawn := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		drawn += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return drawn
}
