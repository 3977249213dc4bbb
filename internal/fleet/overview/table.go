package overview

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// Table writes a fleet for people.
func (doc Fleet) Table(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n\n", doc.State, strings.Join(summary(doc.Status), ", "))
	listPartitions(w, doc)
	fmt.Fprintln(w)
	drawTotals(w, doc.Status)
	drawExposure(w, doc)
	drawTroubles(w, doc.Status)
	drawData(w, doc.Data)
	drawSpares(w, doc.Spares)
	drawTasks(w, doc.Tasks)
	drawEvents(w, doc.Events)
}

// listPartitions writes a table in which a partition has one line.
func listPartitions(w io.Writer, doc Fleet) {
	fmt.Fprintf(w, "NO.\tGEN\tEPOCH\tSHARE\tSTATE\tTAGS\tMEMORY\tTHREAD\tNEARER LIMIT\t%sMASTER\tREPLICAS\n", doc.column("SAVED"))
	for _, p := range doc.Partitions {
		memory, thread, limit := "-", "-", "-"
		if p.Master.PID != 0 {
			memory, thread = readable.Bytes(p.Memory), percent(p.Busy)
			if p.MaxMemory > 0 {
				memory += " of " + readable.Bytes(p.MaxMemory)
			}
			limit = nearerLimit(p) + " " + percent(use(p))
		}
		replicas := make([]string, len(p.Replicas))
		for i, r := range p.Replicas {
			replicas[i] = memberWord(r)
		}
		fmt.Fprintf(w, "%3d\t%3d\t%5d\t%5s\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s\n",
			p.ID, p.Generation, p.Epoch, percent(p.Share), stateOf(p), readable.Number(p.Tags), memory, thread, limit,
			doc.column(snapshotOf(doc.Snapshots, p.ID).age()), memberWord(p.Master), strings.Join(replicas, ", "))
	}
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

// memberWord writes a member as fleet init takes it, with its state unless it serves, and
// its lag.
func memberWord(m fleet.MemberStatus) string {
	word := m.Addr
	if m.Node != "" {
		word += "@" + m.Node
	}
	if m.State != fleet.Up {
		word += " " + strings.ToUpper(string(m.State))
	}
	if m.Lag > 0 {
		word += " -" + readable.Bytes(m.Lag)
	}
	return word
}

// summary counts a fleet's members.
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

// drawTotals writes the totals of all partitions, and the fullest one.
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

// percent writes a part of a whole: "0.6%", "12.5%", "78%".
func percent(part float64) string {
	digits := 1
	if part >= 0.9995 || part == 0 {
		digits = 0
	}
	return strconv.FormatFloat(100*part, 'f', digits, 64) + "%"
}
