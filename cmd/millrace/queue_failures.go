package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueFailures struct {
	watchable
	ops.DeadSearch
}

func (*queueFailures) Help() string {
	return `Below the tables it says what helps: pause a tenant, retry an error's messages at once.`
}

func (c *queueFailures) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.GetFailures, c.DeadSearch, func(doc ops.Failures) table {
		return func(w io.Writer) { tableOfFailures(w, string(c.Name), doc) }
	})
}

// tenantOf returns the tenant of a group in words.
func tenantOf(g ops.Group) jsontype.Text { return cmp.Or(g.Tenant, "several") }

func tableOfFailures(w io.Writer, queue string, doc ops.Failures) {
	at := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	if len(doc.Tenants) == 0 {
		fmt.Fprintln(w, "no tenant failed in the last hour")
	} else {
		fmt.Fprintln(w, "TENANT\tFAILED\tDIED\tRETRYING\tSINCE\tLAST\tERROR")
	}
	for _, t := range doc.Tenants {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", t.Tenant, t.Failed, t.Died, t.Retrying, at(t.Since), at(t.Last), t.Reason)
	}
	if len(doc.Retries) > 0 {
		fmt.Fprintln(w, "\nRETRIES\tNEXT\tOLDEST\tNEWEST\tTENANT\tERROR")
	}
	for _, g := range doc.Retries {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", g.Count, at(*g.Next), at(g.Oldest), at(g.Newest), tenantOf(g), g.Reason)
	}
	if len(doc.Tenants) > 0 {
		fmt.Fprintf(w, "\npause a tenant with: millrace queue tenant pause %s %s\n", readable.Argument(queue), readable.Argument(string(doc.Tenants[0].Tenant)))
	}
	if len(doc.Retries) > 0 {
		fmt.Fprintf(w, "retry an error's messages now with: millrace queue retry %s --reason %s\n", readable.Argument(queue), readable.Argument(string(doc.Retries[0].Reason)))
	}
	printSearched(w, doc.Searched)
}
