package api_test

import (
	"encoding/json"
	"slices"
	"strings"
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
	for range 2 {
		s.ask("POST", "/v1/queues/orders/pause", nil, key("night")).want(200, "")
	}
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
		`api tenant.pause orders: POST /v1/queues/orders/tenants/pause {"tenant":"acme"}`,
		"api queue.pause orders: POST /v1/queues/orders/pause",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestEachChangeIsOfOperatorsOrPrograms: an operation that is new is in the audit log, or here.
func TestEachChangeIsOfOperatorsOrPrograms(t *testing.T) {
	t.Parallel()
	programs := strings.Fields(`ackMessages acquireLease addMarks addToCounter cancelMessages commit deleteFields exchange expireFields
		extendMessages incrementField nackMessages persistFields receiveMessages refreshLease releaseLease reserve setFields
		writeMessage writeMessages`)
	var spec struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	s := serve(t, api.Config{Client: redistest.Shared(t).Client(t)})
	if err := json.Unmarshal(s.ask("GET", "/openapi.json", nil).body, &spec); err != nil {
		t.Fatal(err)
	}
	operations := 0
	for path, methods := range spec.Paths {
		for method, op := range methods {
			if operations++; method == "get" {
				continue
			}
			if _, noted := api.Audited[op.OperationID]; noted == slices.Contains(programs, op.OperationID) {
				t.Errorf("%s %s (%s): is it of operators or of programs?", method, path, op.OperationID)
			}
		}
	}
	if operations < 40 {
		t.Errorf("only %d operations", operations)
	}
}
