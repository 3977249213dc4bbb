package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/server/internal/api"
)

type actions struct {
	Actions []struct{ Who, From, Way, Action, Name, Result, Error string }
}

func audits(s service, _ string) {
	s.ask("GET", "/v1/audit?max=1", nil).want(200, "")
	s.ask("GET", "/v1/audit?action=queue.delete", nil).want(200, "")
	s.ask("GET", "/v1/audit?action=queue.rm", nil).refused(400, "bad_argument")
	s.ask("GET", "/v1/audit?from=20000", nil).refused(400, "bad_request")
}

// log returns the audit log, the latest first.
func (s service) log() (got []string) {
	s.t.Helper()
	for _, e := range read[actions](s.ask("GET", "/v1/audit", nil).want(200, "")).Actions {
		text := strings.TrimSpace(e.Who + " " + e.Way + " " + e.Action + " " + e.Name + ": " + e.Result)
		if e.Error != "" {
			text += " failed"
		}
		got = append(got, text)
	}
	return got
}

// TestActionsAreAudited: those of operators once, also if they fail or are repeated, and not
// those of programs.
func TestActionsAreAudited(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{Client: redistest.Start(t, redistest.Options{}).Client(t)})
	q := "/v1/queues/orders"
	id := read[ops.Written](s.ask("POST", q+"/messages", object{"tenant": "acme"}).want(201, "")).ID
	for range 2 {
		s.ask("POST", q+"/pause", nil, key("night")).want(200, "")
	}
	s.ask("POST", q+"/tenants/pause", object{"tenant": "acme"}).want(200, "")
	s.ask("POST", q+"/cancel", object{"ids": []string{id}}).want(200, "")
	s.ask("POST", "/v1/queues/none/pause", nil).refused(404, "not_found")
	s.ask("DELETE", q, nil).want(200, "")
	s.ask("POST", "/v1/hashes/ns/user:1/set", object{"fields": object{"a": "1"}}).want(200, "")
	s.ask("POST", "/v1/hashes/ns/user:1/delete", object{"fields": []string{"a"}}).want(200, "")
	s.ask("DELETE", "/v1/hashes/ns/user:1", nil).want(200, "")
	for range 2 {
		s.ask("POST", q+"/messages", object{"tenant": "acme"}).want(201, "")
	}
	got := s.take(q, object{"max": 2})
	s.ask("POST", q+"/nack", object{"receipts": []string{got[0].Receipt}}).want(200, "")
	s.ask("POST", q+"/nack", object{"receipts": []string{got[1].Receipt}, "dead": true}).want(200, "")
	want := []string{
		`api queue.dead orders: POST /v1/queues/orders/nack {"dead":true,"receipts":["` + got[1].Receipt + `"]}`,
		"api hash.delete ns/user:1: DELETE /v1/hashes/ns/user:1",
		"api queue.delete orders: DELETE /v1/queues/orders",
		"api queue.pause none: POST /v1/queues/none/pause failed",
		`api queue.cancel orders: POST /v1/queues/orders/cancel {"ids":["` + id + `"]}`,
		`api tenant.pause orders: POST /v1/queues/orders/tenants/pause {"tenant":"acme"}`,
		"api queue.pause orders: POST /v1/queues/orders/pause",
	}
	if got := s.log(); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestOthersActionsHideNone: a client with a prefix gets the actions that it may see, though the
// latest ones are of other names, and one kind can be listed alone.
func TestOthersActionsHideNone(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{Client: redistest.Start(t, redistest.Options{}).Client(t)})
	for _, name := range []string{"acme-orders", "other"} {
		s.ask("POST", "/v1/queues/"+name+"/messages", object{"tenant": "a"}).want(201, "")
	}
	s.ask("POST", "/v1/queues/acme-orders/pause", nil).want(200, "")
	s.ask("DELETE", "/v1/queues/acme-orders", nil).want(200, "")
	for range 3 {
		s.ask("POST", "/v1/queues/other/pause", nil).want(200, "")
	}
	acme := func(r *http.Request) {
		*r = *r.WithContext(access.With(r.Context(), access.Client{Role: access.Viewer, Prefix: "acme-"}))
	}
	for path, want := range map[string][]string{
		"?max=1":                     {"queue.delete acme-orders"},
		"?max=1&from=1":              {"queue.pause acme-orders"},
		"?max=2&action=queue.pause":  {"queue.pause acme-orders"},
		"?max=2&action=queue.delete": {"queue.delete acme-orders"},
	} {
		var got []string
		for _, e := range read[actions](s.ask("GET", "/v1/audit"+path, nil, acme).want(200, "")).Actions {
			got = append(got, e.Action+" "+e.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s it has %q, want %q", path, got, want)
		}
	}
}

// TestReleasesAreAudited: of a lease that another client or program holds, without its token; a
// holder's own are not.
func TestReleasesAreAudited(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	s := serve(t, api.Config{Client: client})
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	as := func(who string) change {
		return func(r *http.Request) { *r = *r.WithContext(access.With(r.Context(), access.Client{Name: who})) }
	}
	const path = "/v1/leases/nightly"
	hold := func(changes ...change) { s.ask("POST", path+"/acquire", object{"ttl": "1h"}, changes...).want(200, "") }
	release := func(who string) {
		token := read[ops.LeaseState](s.ask("GET", path, nil).want(200, "")).Token
		s.ask("POST", path+"/release", object{"token": token}, as(who)).want(200, "")
	}
	for _, k := range []change{as("worker"), key("k")} {
		hold(as("worker"), k)
		release("worker")
	}
	if got := s.log(); len(got) != 0 {
		t.Errorf("after releases by holders the log has %q, want nothing", got)
	}
	hold(as("worker"))
	release("ops")
	if _, err := locker.Acquire(t.Context(), "nightly", time.Hour, lease.AcquireConfig{}); err != nil {
		t.Fatal(err)
	}
	release("worker")
	want := []string{"worker api lease.release nightly: POST " + path + "/release", "ops api lease.release nightly: POST " + path + "/release"}
	if got := s.log(); !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestARepeatIsAuditedOnce: a process ends after an action and its entry, before it stores the
// answer, and another one has the repeat.
func TestARepeatIsAuditedOnce(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	s := serve(t, api.Config{Client: client})
	s.ask("POST", "/v1/queues/orders/messages", object{"tenant": "acme"}).want(201, "")
	for range 2 {
		serve(t, api.Config{Client: client}).ask("POST", "/v1/queues/orders/pause", nil, key("k")).want(200, "")
		forget(t, client)
	}
	if got, want := s.log(), []string{"api queue.pause orders: POST /v1/queues/orders/pause"}; !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// TestEachChangeIsOfOperatorsOrPrograms: each operation that changes something is in the audit
// log, or in the list of programs' operations here.
func TestEachChangeIsOfOperatorsOrPrograms(t *testing.T) {
	t.Parallel()
	programs := strings.Fields(`ackMessages acquireLease addMarks addToChannel addToCounter addToCounters addToTracker closeBatch commit createBatch deleteFields deletePinned exchange expirePinned expireFields
		extendMessages incrementField persistFields receiveMessages refreshLease reserve setFields setPinned work workChannel writeMessage writeMessages`)
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
			row, described := ops.ByID(op.OperationID)
			if !described {
				t.Errorf("%s %s (%s) has no row", method, path, op.OperationID)
			}
			action := row.Action
			noted := action != ""
			if noted == slices.Contains(programs, op.OperationID) {
				t.Errorf("%s %s (%s): is it of operators or of programs?", method, path, op.OperationID)
			}
			if noted && !slices.Contains(audit.Actions(), action) {
				t.Errorf("%s %s (%s): the audit log does not list %q", method, path, op.OperationID, action)
			}
		}
	}
	if operations < 40 {
		t.Errorf("only %d operations", operations)
	}
}
