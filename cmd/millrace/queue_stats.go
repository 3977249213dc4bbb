package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueStats struct {
	watchable
	queueName
}

func (*queueStats) Help() string {
	return `Below the numbers it says what is wrong: who floods, who is slow, for how long the others wait meanwhile, and the command that stops it.`
}

// Run shows durations that the document does not have, so it asks for the numbers itself.
func (c *queueStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		s, err := q.Stats(ctx)
		return ops.OfQueueStats(s), func(w io.Writer) {
			tableOfQueue(w, s)
			listOfFindings(w, diagnosis.OfQueue(s))
		}, err
	})
}

func tableOfQueue(w io.Writer, s fairqueue.Stats) {
	fmt.Fprintf(w, "%s (%s)", jsontype.Text(s.Name), inWords(ops.OfShape(s)))
	if s.Paused {
		fmt.Fprint(w, ", paused")
	}
	fmt.Fprintln(w)
	tableOfFlows(w, s)
	fmt.Fprintf(w, "\n%d delayed, %d dead\n", s.Delayed, s.Dead)
	if len(s.Readers) > 0 {
		fmt.Fprintln(w, "\nREADER\tHOST\tHANDLERS\tIN FLIGHT\tLAST SEEN")
		for _, r := range s.Readers {
			ago := readable.Duration(max(0, s.At.Sub(r.LastSeen)))
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s ago\n", jsontype.Text(r.Name), jsontype.Text(r.Host), r.Concurrency, r.InFlight, ago)
		}
		fmt.Fprintf(w, "all\t\t%d\t\n", s.Capacity)
	}
	n := s.Counters
	fmt.Fprintln(w, "\nWRITTEN\tDELIVERED\tACKED\tNACKED\tRETURNED\tRECLAIMED\tEXPIRED\tCANCELLED\tBURIED\tREDRIVEN\tPURGED\tDROPPED\tLOST")
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", n.Written, n.Delivered, n.Acked, n.Nacked,
		n.Returned, n.Reclaimed, n.Expired, n.Cancelled, n.Buried, n.Redriven, n.Purged, n.Dropped, n.Lost)
}

// listOfFindings writes the faults below all numbers, where a terminal stops.
func listOfFindings(w io.Writer, found []diagnosis.Finding) {
	for _, f := range found {
		fmt.Fprintf(w, "\n%s: the queue %s.\n", f.Severity, f.Text)
		if f.Command != "" {
			fmt.Fprintf(w, "  millrace %s\n", f.Command)
		}
		if f.Advice != "" {
			fmt.Fprintf(w, "  %s\n", f.Advice)
		}
	}
}

func tableOfFlows(w io.Writer, s fairqueue.Stats) {
	heading := "TENANT"
	if s.Streams > 0 {
		heading = "FLOW"
	}
	fmt.Fprintf(w, "\n%s\tWAITING\tIN FLIGHT\tOLDEST\tHANDLING\tWAITS FOR\n", heading)
	age := func(waiting int, oldest time.Duration) string {
		if waiting == 0 {
			return "-"
		}
		return readable.Duration(oldest)
	}
	waitsFor := diagnosis.WhyWaits(s)
	for _, f := range s.Flows {
		name, handling, why := jsontype.Text(f.Tenant).String(), "-", "-"
		if f.Stream >= 0 {
			name = fmt.Sprintf("stream %d", f.Stream)
		}
		if f.Handling >= 0 {
			handling = readable.Duration(f.Handling)
		}
		if f.Waiting > 0 {
			why = waitsFor(f).Words()
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", name, f.Waiting, f.InFlight, age(f.Waiting, f.OldestAge), handling, why)
	}
	if more := s.FlowCount - len(s.Flows); more > 0 {
		fmt.Fprintf(w, "%d more\n", more)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%s\n", s.Waiting, s.InFlight, age(s.Waiting, s.OldestAge))
}
