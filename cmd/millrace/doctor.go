package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/observe/doctor"
)

type doctorCommand struct {
	watchable
	Deep bool `help:"Compare what each queue stores in two places."`
	Scan bool `help:"Go through all keys, and register the structures that are not registered."`
}

func (*doctorCommand) Help() string {
	return `Looks at every master: version, eviction, memory, persistence, replicas, scripts, clock and slow commands; for a second at the load of its main thread and its connections; at the CPUs that servers on this host share, where that can be found out; and at a fleet as a whole. It changes nothing but the server's script cache. Exits with 1 when a finding is critical.

With --scan it also goes through all keys of every master, one server after the other, and registers the structures and leases that are not registered, so that lists, pages and upkeep find them: after a registry was lost, or once after an upgrade from a version without one. It takes about a second for a million keys.

With --deep it also compares everything that a queue stores in two places: each message is in exactly one place, and counts are what is there. It reads each queue of up to 20,000 messages at one instant, for which the server does nothing else; larger ones are named and left out.

Examples:

    millrace doctor --redis redis://127.0.0.1:6379
    millrace doctor --deep
    millrace doctor --scan
    millrace doctor --redis fleet://127.0.0.1:7000`
}

func (c *doctorCommand) Run(ctx context.Context, a *app) error {
	r, err := a.examine(ctx, c.Scan, c.Deep)
	if err != nil {
		return err
	}
	if err := a.print(r, func(w io.Writer) { drawReport(w, r) }); err != nil {
		return err
	}
	if !r.OK {
		return errPrinted
	}
	return nil
}

// examine examines one Redis or a fleet.
func (a *app) examine(ctx context.Context, scan, deep bool) (doctor.Report, error) {
	log := a.paced(scanInterval)
	cfg := doctor.Config{Scan: scan, Deep: deep, Progress: func(addr string, visited, keys int64) {
		log("scanning keys", "server", addr, "visited", visited, "keys", keys)
	}}
	if open.Is(a.url()) {
		f, err := a.openFleet(ctx)
		if err != nil {
			return doctor.Report{}, err
		}
		defer f.Close()
		cfg.Fleet = f
		return doctor.Examine(ctx, f.Client(), cfg)
	}
	client, err := a.open(ctx)
	if err != nil {
		return doctor.Report{}, err
	}
	defer client.Close()
	return doctor.Examine(ctx, client, cfg)
}

// scanInterval is how often the progress of a scan is logged.
const scanInterval = 2 * time.Second

// paced returns a function that logs, at most once in an interval.
func (a *app) paced(interval time.Duration) func(msg string, args ...any) {
	log, last := a.logger(), time.Now()
	return func(msg string, args ...any) {
		if time.Since(last) >= interval {
			last = time.Now()
			log.Info(msg, args...)
		}
	}
}

// drawReport writes a report for people.
func drawReport(w io.Writer, r doctor.Report) {
	for about, findings := range r.Parts() {
		fmt.Fprintf(w, "%s\n", about)
		for _, f := range findings {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Severity, f.Check, f.Text)
			if f.Advice != "" {
				fmt.Fprintf(w, "  \t\t%s\n", f.Advice)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, r.Verdict())
}
