package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/ops"
)

type queueShow struct {
	watchable
	ops.MessageID
}

func (c *queueShow) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, ops.Queue{Name: c.Queue}, ops.ShowMessage, c.MessageID, func(m ops.ShownMessage) table {
		return func(w io.Writer) { tableOfMessage(w, m) }
	})
}

func tableOfMessage(w io.Writer, m ops.ShownMessage) {
	at := func(t *time.Time) string { return t.Local().Format(time.DateTime) }
	state := m.State
	switch {
	case m.WaitsFor != "":
		state += " for " + diagnosis.Why(m.WaitsFor).Words()
	case m.Until != nil:
		state += " until " + at(m.Until)
	}
	fmt.Fprintf(w, "state\t%s\ntenant\t%s\nattempts\t%d\nwritten\t%s\n", state, m.Tenant, m.Attempts, at(&m.WrittenAt))
	if m.Since != nil {
		fmt.Fprintf(w, "%s\t%s\n", map[string]string{"dead": "died", "in_flight": "delivered", "delayed": "failed"}[m.State], at(m.Since))
	}
	if m.Deadline != nil {
		fmt.Fprintf(w, "expires\t%s\n", at(m.Deadline))
	}
	if m.Batch != "" {
		fmt.Fprintf(w, "batch\t%s\n", m.Batch)
	}
	if m.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", m.Reason)
	}
	fmt.Fprintf(w, "body\t%s\n", excerpt(m.Body))
}
