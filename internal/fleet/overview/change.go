package overview

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/membership"
)

// Change describes a command's effect on the members of partitions.
type Change struct {
	Plan     string              `json:"plan"`
	Changes  []membership.Change `json:"changes"`
	Drops    []Task              `json:"drops,omitempty"` // the tasks that fleet cancel drops
	Warnings []string            `json:"warnings,omitempty"`
	Begun    bool                `json:"begun"` // whether an earlier command has begun it; then changes are those that were left
	Done     bool                `json:"done"`
	Took     int64               `json:"took_ms"`
}

// NewChange describes the plan of a request for a map.
func NewChange(m *directory.Map, r membership.Request, plan *membership.Plan) Change {
	doc := Change{Plan: plan.ID, Changes: plan.Changes(m), Begun: plan.Begun, Done: len(plan.Tasks) == 0}
	if cancel, ok := r.(membership.Cancel); ok && !doc.Done {
		doc.Drops = slices.DeleteFunc(TasksOf(m), func(t Task) bool { return t.Plan != cancel.Plan })
	}
	return doc
}

// Table writes the plan and its warnings.
func (doc Change) Table(w io.Writer) {
	if len(doc.Changes) == 0 {
		fmt.Fprintln(w, "there is nothing to do")
		return
	}
	if len(doc.Drops) > 0 {
		fmt.Fprint(w, "This is dropped; what has been done stays:\n")
		drawTasks(w, doc.Drops)
		return
	}
	fmt.Fprintln(w, "PARTITION\tCOMES\tLEAVES\tRESTARTS\tMASTER BEFORE\tMASTER AFTER")
	for _, c := range doc.Changes {
		after := c.MasterAfter
		if after == c.MasterBefore {
			after = "the same"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", c.Partition, orDash(c.Comes), orDash(c.Leaves), orDash(strings.Join(c.Restarts, ", ")), c.MasterBefore, after)
	}
	for _, warning := range doc.Warnings {
		fmt.Fprintf(w, "\nNote: %s.\n", warning)
	}
}
