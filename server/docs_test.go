package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/server"
)

// TestDocs holds the page against /openapi.json: it shows each operation, its fields and the
// longest wait, and nothing from elsewhere.
func TestDocs(t *testing.T) {
	t.Parallel()
	s := service(t, server.Config{Prefix: "/mill"})
	var spec struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(answer(s, http.MethodGet, "/mill/openapi.json").Body.Bytes(), &spec); err != nil || len(spec.Paths) == 0 {
		t.Fatalf("%d paths, %v", len(spec.Paths), err)
	}
	got := answer(s, http.MethodGet, "/mill/docs")
	page := got.Body.String()
	if got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("status %d, with the policy %q", got.Code, got.Header().Get("Content-Security-Policy"))
	}
	for path, item := range spec.Paths {
		for method, operation := range item {
			if !strings.Contains(page, `data-operation="`+operation.OperationID+`"`) {
				t.Errorf("%s %s is not on the page", method, path)
			}
		}
	}
	for _, want := range []string{
		`href="/mill/openapi.json"`, "<code>messages[].receipt</code>", "At most 1m; a longer one is refused.",
		`example.com/mill/v1/queues/orders/receive`, `href="#problem-409"`, "tenant_full", "default 100", "1 to 1000", "waiting, in_flight, delayed",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	for _, foreign := range []string{"http://", "https://", "<no value>", "%!"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	if nav := answer(s, http.MethodGet, "/mill/queues").Body.String(); !strings.Contains(nav, `href="/mill/docs"`) {
		t.Error("a page has no link to the description")
	}
}
