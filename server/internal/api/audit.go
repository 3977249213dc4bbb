package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/server/internal/access"
)

// beginNote returns the entry of a request for the audit log, or nil if it needs none. It takes
// the id before the calls of the operation: a repeat by another process takes the same one.
func beginNote(ctx context.Context, row ops.Row, in any) *audit.Entry {
	if row.Action == "" {
		return nil
	}
	id, b := reqid.Next(ctx), boundsOf(ctx)
	if with, ok := in.(hasBody); ok {
		if by, ok := with.body().(ops.Audited); ok && !by.OfOperator(ctx) {
			return nil
		}
	}
	e := &audit.Entry{ID: id, Who: access.Of(ctx).Name, From: b.request.RemoteAddr, Way: "api", Action: row.Action, Result: what(row.ID, b.request, b.body)}
	if named, ok := in.(hasName); ok {
		e.Name = named.Structure()
	}
	return e
}

// note writes an entry for a request, with its result, into the audit log.
func (a *API) note(ctx context.Context, e *audit.Entry, failed error) {
	if e == nil {
		return
	}
	if failed != nil {
		e.Error = failed.Error()
	}
	a.audit.Note(ctx, *e)
}

// what describes a request in the audit log. It leaves out the body of a
// schedule, which contains those of its messages, and the token of a lease.
func what(operation string, r *http.Request, body []byte) string {
	text := r.Method + " " + r.URL.EscapedPath()
	if r.Method == http.MethodPost && len(body) > 0 && operation != "releaseLease" {
		text += " " + string(body[:min(len(body), 400)])
	}
	return text
}

func (a *API) routeAudit() {
	register(a, ops.ListActions,
		func(ctx context.Context, in *auditRequest) (doc auditedActions, err error) {
			list := audit.ListConfig{Action: in.Action, First: in.From, Most: in.Max}
			if in.Action != "" && !slices.Contains(audit.Actions(), in.Action) {
				return doc, millrace.ErrBadArgument.Errorf("there is no action %q", in.Action).WithHint("The actions are " + strings.Join(audit.Actions(), ", ") + ".")
			}
			if client := access.Of(ctx); client.Prefix != "" {
				list.Owns = func(e audit.Entry) bool { return client.Owns(e.Name) }
			}
			entries, err := a.audit.List(ctx, list)
			doc.Actions = make([]auditedAction, len(entries))
			for i, e := range entries {
				doc.Actions[i] = auditedAction{
					e.At.UTC().Truncate(time.Millisecond), jsontype.Text(e.Who), e.From, e.Way, e.Action, jsontype.Text(e.Name), jsontype.Text(e.Result), jsontype.Text(e.Error),
				}
			}
			return doc, err
		})
}

type auditRequest struct {
	Max    int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of actions."`
	From   int    `query:"from" default:"0" minimum:"0" maximum:"10000" doc:"How many of the latest actions to leave out."`
	Action string `query:"action" doc:"Only actions of this kind. Defaults to all." example:"queue.delete"`
}

type auditedActions struct {
	Actions []auditedAction `json:"actions"`
}

type auditedAction struct {
	At     time.Time     `json:"at" doc:"By the server's clock, in UTC."`
	Who    jsontype.Text `json:"who" doc:"The client by its credentials: a user, or the beginning of a hash of its token; of the command the user and the host of its process. Empty without credentials." example:"\"ops\""`
	From   string        `json:"from" doc:"Its address; empty for the command." example:"127.0.0.1:51034"`
	Way    string        `json:"way" enum:"pages,api,command" doc:"The pages, this API, or the command."`
	Action string        `json:"action" doc:"What it was." example:"queue.pause"`
	Name   jsontype.Text `json:"name" doc:"The name of the structure." example:"\"orders\""`
	Result jsontype.Text `json:"result" doc:"What was done: a sentence of a page, the request, or the command line without secrets and bodies." example:"\"The queue is paused.\""`
	Error  jsontype.Text `json:"error" doc:"Why nothing was done. Empty if it was done." example:"\"\""`
}
