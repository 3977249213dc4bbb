package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/lease"
)

type leaseLs struct {
	watchable
	Text jsontype.Text `arg:"" optional:"" help:"Only leases with this text in their names. Defaults to all."`
	Most int           `default:"100" placeholder:"N" help:"How many to show, up to 1,000. Defaults to ${default}."`
	From jsontype.Text `placeholder:"NAME" help:"Begin behind this name: next of the list before."`
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
	names, missing, failed := ops.Names(lease.List(ctx, client), func(name string) bool {
		return name > string(c.From) && strings.Contains(name, string(c.Text))
	})
	if failed != nil && missing.Incomplete == "" {
		return failed
	}
	doc := ops.HeldLeases{Leases: []ops.HeldLease{}, Incomplete: missing}
	locker, err := lease.New(client, lease.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for _, name := range names {
		if len(doc.Leases) == c.Most {
			doc.Next = doc.Leases[c.Most-1].Name
			break
		}
		shown, err := ops.GetLease.Do(ctx, ops.OneLease{Of: locker, Name: string(name)}, ops.Lease{Name: name})
		if err != nil {
			err = fmt.Errorf("lease %q: %w", name, err)
			if !errors.Is(err, millrace.ErrBroken) && !errors.Is(err, millrace.ErrVersion) {
				return err
			}
			failed = cmp.Or(failed, err) // the others are shown
			continue
		}
		if shown.Held {
			doc.Leases = append(doc.Leases, ops.HeldLease{Name: name, LeaseState: shown})
		}
	}
	return cmp.Or(a.print(doc, func(w io.Writer) {
		if len(doc.Leases) == 0 {
			fmt.Fprintln(w, "no lease is held")
			return
		}
		fmt.Fprintln(w, "NAME\tFOR\tUNTIL\tFENCE\tMETADATA")
		for _, l := range doc.Leases {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", l.Name, remaining(*l.Remaining), time.UnixMilli(*l.Deadline).Local().Format(time.DateTime),
				l.Fence, cmp.Or(*l.Metadata, "-"))
		}
		if doc.Next != "" {
			fmt.Fprintf(w, "\nthere are more: go on with --from %s\n", doc.Next)
		}
	}), failed)
}
