package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/server/internal/audit"
)

// audited are the operations of operators, by their names in the audit log. What programs do
// all the time is not there.
var audited = map[string]string{
	"deleteQueue": "queue.delete", "resizeQueue": "queue.resize", "setPosition": "queue.position",
	"pauseQueue": "queue.pause", "resumeQueue": "queue.resume", "setFairBy": "queue.fair-by",
	"redriveDead": "queue.redrive", "purgeDead": "queue.purge", "keepDead": "queue.keep-dead",
	"pauseTenant": "tenant.pause", "resumeTenant": "tenant.resume", "purgeTenant": "tenant.purge",
	"changeLimits": "tenant.limits", "clearLimits": "tenant.clear",
	"setSchedule": "schedule.set", "removeSchedule": "schedule.remove", "pauseSchedule": "schedule.pause",
	"resumeSchedule": "schedule.resume", "runSchedule": "schedule.run",
	"deleteIck": "ick.delete", "retryParked": "ick.retry", "dropParked": "ick.drop", "deleteHash": "hash.delete",
}

// note enters what an operation did into the audit log, if it is one of operators.
func (a *API) note(ctx context.Context, operation string, in any, failed error) {
	action, ok := audited[operation]
	if !ok {
		return
	}
	b := boundsOf(ctx)
	e := audit.Entry{Who: Principal(ctx), From: b.request.RemoteAddr, Way: "api", Action: action, Result: what(b.request, b.body)}
	if named, ok := in.(hasName); ok {
		e.Name = named.name()
	}
	if failed != nil {
		e.Error = failed.Error()
	}
	a.audit.Note(ctx, e)
}

// what describes a request in the audit log. The body of a schedule is left out: it has that
// of its messages.
func what(r *http.Request, body []byte) string {
	text := r.Method + " " + r.URL.EscapedPath()
	if r.Method == http.MethodPost && len(body) > 0 {
		text += " " + string(body[:min(len(body), 400)])
	}
	return text
}

func (a *API) routeAudit() {
	register(a, op(http.MethodGet, "/v1/audit", "listActions", "List what operators changed, the latest first",
		"The last 1,000 actions of the pages, and of requests that pause, limit, resize, redrive, purge or delete. Each entry is written after its action; if that fails, the action counts all the same."),
		func(ctx context.Context, in *auditRequest) (doc auditedActions, err error) {
			entries, err := a.audit.List(ctx, in.From, in.Max)
			doc.Actions = make([]auditedAction, len(entries))
			for i, e := range entries {
				doc.Actions[i] = auditedAction{
					e.At.UTC(), document.Text(e.Who), e.From, e.Way, e.Action, document.Text(e.Name), document.Text(e.Result), document.Text(e.Error),
				}
			}
			return doc, err
		})
}

type auditRequest struct {
	Max  int `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"The largest number of actions."`
	From int `query:"from" default:"0" minimum:"0" maximum:"1000" doc:"How many of the latest actions to leave out."`
}

type auditedActions struct {
	Actions []auditedAction `json:"actions"`
}

type auditedAction struct {
	At     time.Time     `json:"at" doc:"By the server's clock, in UTC."`
	Who    document.Text `json:"who" doc:"The client by its credentials: a user, or the beginning of a hash of its token. Empty without credentials." example:"\"ops\""`
	From   string        `json:"from" doc:"Its address." example:"127.0.0.1:51034"`
	Way    string        `json:"way" enum:"pages,api" doc:"The pages, or this API."`
	Action string        `json:"action" doc:"What it was." example:"queue.pause"`
	Name   document.Text `json:"name" doc:"The name of the structure." example:"\"orders\""`
	Result document.Text `json:"result" doc:"What was done: a sentence of a page, or the request." example:"\"The queue is paused.\""`
	Error  document.Text `json:"error" doc:"Why nothing was done. Empty if it was done." example:"\"\""`
}
