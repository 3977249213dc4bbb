package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/millrace/millrace/fairqueue"
)

// TestAuditPage shows who did what, the latest first, and what failed; a log that cannot be
// written stops nothing.
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
	if got := h.get("/audit?from=50").want(http.StatusOK).all("data-action", "*"); len(got) != 2 {
		t.Errorf("the page before has %q", got)
	}

	for _, command := range [][]string{{"DEL", "mr:audit"}, {"SET", "mr:audit", "x"}} {
		if err := h.client.Do(t.Context(), h.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	h.follow(h.post(path+"/pause", nil)).says("The queue is paused.")
}
