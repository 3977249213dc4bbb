package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/audit"
)

// TestAuditPage shows each action and its author, the latest first, and failed actions; a log
// that cannot be written does not stop an action.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.get("/audit").want(http.StatusOK).says("No action yet")
	q := h.queue("or<b>ders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "acme"})
	path := "/queues/" + segment(q.Name())
	h.post(path+"/pause", nil).want(http.StatusSeeOther)
	h.post(path+"/delete", url.Values{"confirm": {"other"}}).want(http.StatusSeeOther)
	page := h.get("/audit").want(http.StatusOK)
	if got := page.all("data-action", "*"); len(got) != 2 {
		t.Fatalf("the page has %q, want two actions", got)
	}
	page.says("queue.pause pages or<b>ders The queue is paused.")
	page.says("nothing was done: the typed name is a different one")
	page.says("127.0.0.1")
	for range auditRows {
		h.post(path+"/resume", nil).want(http.StatusSeeOther)
	}
	page = h.get("/audit").want(http.StatusOK)
	if got := page.all("data-action", "*"); len(got) != auditRows {
		t.Errorf("the page has %d actions, want %d", len(got), auditRows)
	}
	page.says("Earlier")
	if got := h.get("/audit?action=queue.pause").want(http.StatusOK).all("data-action", "*"); len(got) != 1 || !strings.Contains(got[0], "queue.pause") {
		t.Errorf("the page of one kind has %q", got)
	}
	if got := h.get("/audit?from=50").want(http.StatusOK).all("data-action", "*"); len(got) != 2 {
		t.Errorf("the page before has %q", got)
	}

	const pauses = "mr:audit:{log}:queue.pause"
	for _, command := range [][]string{{"DEL", pauses}, {"SET", pauses, "x"}} {
		if err := h.client.Do(t.Context(), h.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	h.follow(h.post(path+"/pause", nil)).says("The queue is paused.")
}

// TestEachActionIsListed: the audit log has a list for each action of the pages.
func TestEachActionIsListed(t *testing.T) {
	t.Parallel()
	names := []string{"schedule.create", "queue.write"}
	for path := range actions {
		section, word, _ := strings.Cut(path, "/")
		names = append(names, strings.TrimSuffix(section, "s")+"."+word)
	}
	for word := range scheduleActions {
		names = append(names, "schedule."+word)
	}
	for word := range tenantActions {
		names = append(names, "tenant."+word)
	}
	for _, name := range names {
		if !slices.Contains(audit.Actions(), name) {
			t.Errorf("the audit log does not list %q", name)
		}
	}
}
