package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

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
	drawTasks(w, doc.Tasks)
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

// memberText writes the place of a member, and its state unless it serves.
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

// nearerLimit returns the limit that a partition has used more of: "memory" or "thread".
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

// stateOf returns the state of a partition, and its phase unless it is open.
func stateOf(p fleet.PartitionStatus) string {
	switch p.Phase {
	case directory.LookUp:
		return string(p.State) + ", being added"
	case directory.Closed:
		return string(p.State) + ", closed"
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

// memberWord writes a member as fleet init takes it, with its state unless it serves, or
// its lag.
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

// summary counts what the fleet has.
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

// drawTroubles writes why members do not serve.
func drawTroubles(w io.Writer, s fleet.Status) {
	if lines := check.Troubles(s); len(lines) > 0 {
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

// The ring is drawn as a circle with position 0 at the top. Each point has the number of
// its partition, which owns the tags before it.

// canvas is a field of characters, about twice as high as wide each.
type canvas struct {
	cells  [][]rune
	radius int // in lines; in columns it is twice that
}

func newCanvas(radius int) *canvas {
	c := &canvas{cells: make([][]rune, 2*radius+1), radius: radius}
	for i := range c.cells {
		c.cells[i] = []rune(strings.Repeat(" ", 4*radius+1+2*margin))
	}
	return c
}

// margin is the room for a number at the left and at the right.
const margin = 3

// at returns the cell at a part of the way round, clockwise from the top.
func (c *canvas) at(turn float64) (line, column int) {
	r := float64(c.radius)
	line = c.radius - int(math.Round(r*math.Cos(2*math.Pi*turn)))
	column = margin + 2*c.radius + int(math.Round(2*r*math.Sin(2*math.Pi*turn)))
	return line, column
}

// write writes words with their middle at a cell, and reports whether there was
// room, with a space on both sides.
func (c *canvas) write(line, column int, words string) bool {
	text := []rune(words)
	start := column - len(text)/2
	for i := start - 1; i <= start+len(text); i++ {
		if i >= 0 && i < len(c.cells[line]) && c.cells[line][i] != ' ' {
			return false
		}
	}
	copy(c.cells[line][start:], text)
	return true
}

// dot writes a dot where nothing is near.
func (c *canvas) dot(turn float64) {
	line, column := c.at(turn)
	for i := column - 1; i <= column+1; i++ {
		if c.cells[line][i] != ' ' && c.cells[line][i] != '·' {
			return
		}
	}
	c.cells[line][column] = '·'
}

// drawRing draws the circle if there is room for all points.
func drawRing(w io.Writer, points directory.Points, s fleet.Status) {
	words := append([]string{string(s.State)}, summary(s)...)
	for radius := 6; radius <= 10; radius++ {
		c := newCanvas(radius)
		if !c.drawPoints(points, s) {
			continue
		}
		dots := 10 * radius
		for i := range dots {
			c.dot(float64(i) / float64(dots))
		}
		for i, line := range words {
			c.write(radius-len(words)/2+i, margin+2*radius, line)
		}
		for _, line := range c.cells {
			fmt.Fprintln(w, strings.TrimRight(string(line), " "))
		}
		if s.State != fleet.Healthy {
			fmt.Fprintln(w, "\n~ partial: a replica does not serve   ! read-only   ✗ out")
		}
		return
	}
	fmt.Fprintf(w, "%s\n", strings.Join(words, ", "))
}

// drawPoints writes the numbers of partitions at their points.
func (c *canvas) drawPoints(points directory.Points, s fleet.Status) bool {
	for _, p := range points {
		name := strconv.Itoa(p.Partition)
		if p.Partition < len(s.Partitions) {
			name += map[fleet.State]string{fleet.Partial: "~", fleet.ReadOnly: "!", fleet.Out: "✗"}[s.Partitions[p.Partition].State]
		}
		line, column := c.at(float64(p.Position) / (1 << 64))
		if !c.write(line, column, name) {
			return false
		}
	}
	return true
}
