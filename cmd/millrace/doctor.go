package main

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace/millrace/doctor"
)

type doctorCommand struct{}

// Help shows examples.
func (*doctorCommand) Help() string {
	return `Looks at every master: version, eviction, memory, persistence, replicas, scripts and clock; at the CPUs that servers on this host share, where that can be found out; and at a fleet as a whole. It changes nothing but the server's script cache. Exits with 1 when a check fails.

Examples:

    millrace doctor --redis redis://127.0.0.1:6379
    millrace doctor --redis fleet://127.0.0.1:7000`
}

// Run examines.
func (*doctorCommand) Run(ctx context.Context, a *app) error {
	r, err := a.examine(ctx)
	if err != nil {
		return err
	}
	if err := a.print(r, func(w io.Writer) { drawReport(w, r) }); err != nil {
		return err
	}
	if !r.OK {
		return errSaid
	}
	return nil
}

// examine looks at one Redis or at a fleet.
func (a *app) examine(ctx context.Context) (doctor.Report, error) {
	if isFleet(a.url()) {
		f, err := a.openFleet(ctx)
		if err != nil {
			return doctor.Report{}, err
		}
		defer f.Close()
		return doctor.ExamineFleet(ctx, f)
	}
	client, err := a.open(ctx)
	if err != nil {
		return doctor.Report{}, err
	}
	defer client.Close()
	return doctor.Examine(ctx, client), ctx.Err()
}

// drawReport writes a report for people.
func drawReport(w io.Writer, r doctor.Report) {
	for about, findings := range r.Parts() {
		fmt.Fprintf(w, "%s\n", about)
		for _, f := range findings {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Level, f.Check, f.Value)
			if f.Hint != "" {
				fmt.Fprintf(w, "  \t\t%s\n", f.Hint)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, r.Verdict())
}
