package overview

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// Task is an unfinished change of a partition's members. A field is absent if nothing of that
// kind remains.
type Task struct {
	Partition int      `json:"partition"`
	Plan      string   `json:"plan,omitempty"`
	Joins     string   `json:"joins,omitempty"`    // copies the master
	Leaves    string   `json:"leaves,omitempty"`   // is to leave, or does so
	Restarts  []string `json:"restarts,omitempty"` // one at a time
	Master    string   `json:"master,omitempty"`   // is to lead
}

// TasksOf returns the tasks in a map.
func TasksOf(m *directory.Map) []Task {
	var docs []Task
	for _, p := range m.Partitions {
		if p.Task == nil && p.Leaving == nil {
			continue
		}
		doc := Task{Partition: p.ID}
		if t := p.Task; t != nil {
			doc.Plan, doc.Leaves, doc.Master = t.Plan, t.Remove, t.Master
			if t.Add != nil {
				doc.Joins = t.Add.Addr
			}
			for _, restart := range t.Restart {
				doc.Restarts = append(doc.Restarts, restart.Addr)
			}
		}
		if p.Leaving != nil {
			doc.Leaves = p.Leaving.Addr
		}
		docs = append(docs, doc)
	}
	return docs
}

// drawTasks writes the unfinished changes of members.
func drawTasks(w io.Writer, tasks []Task) {
	if len(tasks) == 0 {
		return
	}
	fmt.Fprintf(w, "\nPARTITION\tPLAN\tJOINS\tLEAVES\tRESTARTS\tMASTER AFTER\n")
	for _, t := range tasks {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", t.Partition, orDash(t.Plan), orDash(t.Joins), orDash(t.Leaves), orDash(strings.Join(t.Restarts, ", ")), orDash(t.Master))
	}
}

// drawSpares writes which servers replace dead members.
func drawSpares(w io.Writer, spares []directory.Member) {
	if len(spares) == 0 {
		return
	}
	var words []string
	for _, s := range spares {
		words = append(words, memberWord(fleet.MemberStatus{Addr: s.Addr, Node: s.Node, State: fleet.Up}))
	}
	fmt.Fprintf(w, "\n%s: %s\n", readable.Count(len(spares), "spare"), strings.Join(words, ", "))
}

// orDash writes a cell that may be empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
