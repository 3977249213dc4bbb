package recovery

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Report is a Found in its printed form.
type Report struct {
	Fleet    string   `json:"fleet"`
	From     string   `json:"from"`        // the copy that is taken, the newest without --from
	Epoch    int64    `json:"epoch"`       // of that copy
	Known    int64    `json:"known_epoch"` // the highest one that a member knows
	Copies   []Copy   `json:"copies"`      // the newest first
	Members  []Member `json:"members"`
	Findings []string `json:"findings"`
	Unknown  []string `json:"unknown"`
}

// Report returns the printed form.
func (f *Found) Report() Report {
	return Report{
		Fleet: f.Fleet, From: f.From.From, Epoch: f.From.Epoch, Known: f.Known, Copies: f.Copies, Members: f.Members,
		Findings: append([]string{}, f.Findings...), Unknown: append([]string{}, f.Unknown...),
	}
}

// Table writes it for people.
func (doc Report) Table(w io.Writer) {
	fmt.Fprintf(w, "The map is that of %s, as of epoch %d.\n\n", doc.From, doc.Epoch)
	fmt.Fprintln(w, "PARTITION\tMEMBER\tNODE\tSTATE\tHAS DATA AS OF EPOCH")
	for _, m := range doc.Members {
		partition, epoch := strconv.Itoa(m.Partition), ""
		if m.Partition < 0 {
			partition = "none"
		}
		if m.Copy > 0 {
			epoch = strconv.FormatInt(m.Copy, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", partition, m.Addr, m.Node, m.State, epoch)
	}
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s\n- %s\n", title, strings.Join(lines, "\n- "))
		}
	}
	list("What differs, or goes on:", doc.Findings)
	list("What is not known:", doc.Unknown)
	fmt.Fprintln(w)
}
