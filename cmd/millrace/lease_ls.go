package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/lease"
)

type leaseLs struct {
	watchable
	Text document.Text `arg:"" optional:"" help:"Only leases with this text in their names. Defaults to all."`
	Most int           `default:"100" placeholder:"N" help:"How many to show, up to 1,000. Defaults to ${default}."`
	From document.Text `placeholder:"NAME" help:"Begin behind this name: next of the list before."`
}

func (*leaseLs) Help() string {
	return `Leases that are held, by name. Each one that is shown is asked for: one call to Redis.

Examples:

    millrace lease ls
    millrace lease ls nightly --json`
}

// namedLease is a lease in the document of lease ls.
type namedLease struct {
	Name document.Text `json:"name"`
	document.Lease

	info lease.Info
}

func (c *leaseLs) Run(ctx context.Context, a *app) error {
	if c.Most < 1 || c.Most > 1000 {
		return millrace.ErrBadArgument.Errorf("a list has 1 to 1000 leases, not %d", c.Most)
	}
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var names []string
	var failed error
	for name, err := range lease.List(ctx, client) {
		switch {
		case err != nil:
			failed = err
		case name > string(c.From) && strings.Contains(name, string(c.Text)):
			names = append(names, name)
		}
	}
	part, ok := document.OfList(failed)
	if !ok {
		return failed
	}
	slices.Sort(names)
	doc := struct {
		Leases []namedLease  `json:"leases"`
		Next   document.Text `json:"next"`
		document.Incomplete
	}{Leases: []namedLease{}, Incomplete: part}
	locker, err := lease.New(client, lease.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for _, name := range names {
		if len(doc.Leases) == c.Most {
			doc.Next = doc.Leases[c.Most-1].Name
			break
		}
		info, err := locker.Show(ctx, name)
		if err != nil {
			err = fmt.Errorf("lease %q: %w", name, err)
			if !errors.Is(err, millrace.ErrBroken) && !errors.Is(err, millrace.ErrVersion) {
				return err
			}
			failed = cmp.Or(failed, err) // the others are shown
			continue
		}
		if info.Held {
			doc.Leases = append(doc.Leases, namedLease{document.Text(name), document.OfLease(info), info})
		}
	}
	return cmp.Or(a.print(doc, func(w io.Writer) {
		if len(doc.Leases) == 0 {
			fmt.Fprintln(w, "no lease is held")
			return
		}
		fmt.Fprintln(w, "NAME\tFOR\tUNTIL\tFENCE\tMETADATA")
		for _, l := range doc.Leases {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", l.Name, readable.Duration(l.info.Remaining), strings.TrimPrefix(until(l.info.Deadline), "until "),
				l.info.Fence, cmp.Or(document.Text(l.info.Metadata), "-"))
		}
		if doc.Next != "" {
			fmt.Fprintf(w, "\nthere are more: go on with --from %s\n", doc.Next)
		}
	}), failed)
}
