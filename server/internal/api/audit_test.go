package api_test

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

type actions struct {
	Actions []struct{ Who, From, Way, Action, Name, Result, Error string }
}

func audits(s service, _ string) {
	s.ask("GET", "/v1/audit?max=1", nil).want(200, "")
	s.ask("GET", "/v1/audit?from=2000", nil).refused(400, "bad_request")
}

// TestActionsAreAudited: those of operators once, also if they fail or are repeated, and not
// those of programs.
func TestActionsAreAudited(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{Client: redistest.Start(t, redistest.Options{}).Client(t)})
	s.ask("POST", "/v1/queues/orders/messages", object{"tenant": "acme"}).want(201, "")
	s.ask("POST", "/v1/queues/orders/pause", nil).want(200, "")
	s.ask("POST", "/v1/queues/orders/tenants/pause", object{"tenant": "acme"}).want(200, "")
	s.ask("POST", "/v1/queues/orders/cancel", object{"ids": []string{unknownID}}).refused(404, "not_found")
	s.ask("POST", "/v1/queues/none/pause", nil).refused(404, "not_found")
	s.ask("DELETE", "/v1/queues/orders", nil).want(200, "")
	var got []string
	for _, e := range read[actions](s.ask("GET", "/v1/audit", nil).want(200, "")).Actions {
		text := e.Way + " " + e.Action + " " + e.Name + ": " + e.Result
		if e.Error != "" {
			text += " failed"
		}
		got = append(got, text)
	}
	want := []string{
		"api queue.delete orders: DELETE /v1/queues/orders",
		"api queue.pause none: POST /v1/queues/none/pause failed",
		`api queue.cancel orders: POST /v1/queues/orders/cancel {"ids":["1700000000000000"]} failed`,
		`api tenant.pause orders: POST /v1/queues/orders/tenants/pause {"tenant":"acme"}`,
		"api queue.pause orders: POST /v1/queues/orders/pause",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
