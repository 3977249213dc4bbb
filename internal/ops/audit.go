package ops

import "net/http"

// ListActions lists what people changed.
var ListActions = Row{
	ID: "listActions", Method: http.MethodGet, Path: "/v1/audit", Class: Look,
	Only:    "a person reads the audit log on the pages",
	Summary: "List what operators changed, the latest first",
	Detail:  "The last 200 of each kind of action, for 90 days: those of the pages and of the command, and requests that pause, limit, resize, redrive, purge, cancel or delete, make messages dead, or release the lease of another client. Each entry is written after its action, once for each Idempotency-Key; if that fails, the action counts all the same.",
}
