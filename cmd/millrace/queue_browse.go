package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/ops"
)

type queueBrowse struct {
	watchable
	ops.MessageSearch
}

func (c *queueBrowse) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.SearchMessages, c.MessageSearch, func(doc ops.FoundMessages) table {
		return func(w io.Writer) {
			fmt.Fprintln(w, "ID\tTENANT\tATTEMPTS\tWRITTEN\tREASON\tBODY")
			for _, m := range doc.Messages {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", m.ID, m.Tenant, m.Attempts, m.WrittenAt.Local().Format(time.DateTime), cmp.Or(m.Reason, "-"), excerpt(m.Body))
			}
			printSearched(w, doc.Searched)
		}
	})
}

// printSearched says how to go on with a search.
func printSearched(w io.Writer, s ops.Searched) {
	if s.Next != "" {
		fmt.Fprintf(w, "\nlooked at %d of %d, go on with --from %s\n", s.Looked, s.Total, s.Next)
	}
}
