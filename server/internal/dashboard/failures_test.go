package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// writeFailed writes messages, which fail and wait for an hour.
func (h *house) writeFailed(q *fairqueue.Queue, reason string, drafts ...fairqueue.Draft) []string {
	h.t.Helper()
	ids := h.write(q, drafts...)
	for range ids {
		messages, err := q.Read(h.t.Context(), fairqueue.ReadConfig{})
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := q.Nack(h.t.Context(), fairqueue.NackConfig{Delay: time.Hour, Reason: reason}, messages[0].Receipt); err != nil {
			h.t.Fatal(err)
		}
	}
	return ids
}

// TestFailuresPage shows which tenants fail, with which error, and retries their messages.
func TestFailuresPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("or ders", fairqueue.Config{})
	bad := "ba/d\x00<b>"
	for i := range 3 {
		h.writeFailed(q, fmt.Sprintf("no <i>order %d", 17+i), fairqueue.Draft{Tenant: bad})
	}
	h.writeFailed(q, "", fairqueue.Draft{Tenant: "quiet"}, fairqueue.Draft{Tenant: bad})
	h.writeDead(q, "HTTP 410", fairqueue.Draft{Tenant: "quiet"})
	h.write(q, fairqueue.Draft{Tenant: "quiet", Delay: time.Hour})
	h.look()

	const path = "/queues/or%20ders/failures"
	for _, path := range []string{path, "/queues/or%20ders"} {
		page := h.get(path).want(http.StatusOK)
		page.figures(map[string]string{"failing": "2"})
		if row := page.one("data-failing", "t"+token(bad)); !strings.Contains(row, "no reason given") || !strings.Contains(row, "4") {
			t.Errorf("%s: the tenant's row is %q", path, row)
		}
	}
	page := h.get(path).want(http.StatusOK)
	page.says("looked at 6 of 6 delayed messages")
	page.says("looked at 1 of 1")
	for attribute, groups := range map[string]map[string]string{
		"data-group": {"no <i>order #": "3", "no reason given": "2 tenants"}, "data-dead": {"HTTP 410": "quiet"},
	} {
		for group, want := range groups {
			if got := page.one(attribute, group); !strings.Contains(got, want) {
				t.Errorf("the error %s says %q, want %q", group, got, want)
			}
		}
	}
	form := func(words ...string) url.Values { return url.Values{"view": {pairs(words...)}} }
	page = h.follow(h.post("/queues/or%20ders/retry-failed", form("state", "delayed", "reason", "no <i>order #")))
	page.says("3 messages waiting now, reason")
	page = h.follow(h.post("/queues/or%20ders/retry-failed", form("state", "delayed", "tenant", "quiet")))
	page.says(`1 message waiting now, tenant "quiet"`)
	if s := h.stats(q); s.Waiting != 4 || s.Delayed != 2 || s.Dead != 1 {
		t.Errorf("%d wait, %d are delayed and %d dead, want 4, 2 and 1", s.Waiting, s.Delayed, s.Dead)
	}
	h.follow(h.post("/queues/or%20ders/retry-failed", form("state", "dead"))).says("he form is invalid")
	h.follow(h.post("/queues/or%20ders/retry-failed", nil)).says("he form is invalid")

	tenant := "/queues/or%20ders/tenants/" + segment(bad)
	page = h.follow(h.post(tenant+"/pause", url.Values{"view": {"failures"}}))
	if got := page.one("data-quick", "t"+token(bad)); got != "Resume" {
		t.Errorf("the page offers to %q it", got)
	}
	h.get("/queues/none/failures").want(http.StatusNotFound)
	h.get("/queues/or%20ders/search?state=delayed").want(http.StatusOK).says("Retry all that failed and match, 1 retry?")
	h.follow(h.post("/queues/or%20ders/retry-matching", form("state", "delayed"))).says("1 message waiting now")
}

// TestRetryOfSelected: the list of delayed messages retries those that are selected.
func TestRetryOfSelected(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	ids := h.writeFailed(q, "x", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"})
	h.look()
	page := h.get("/queues/orders?place=delayed").want(http.StatusOK)
	page.one("data-opens", "ask-retry")
	if got := page.one("data-message", ids[0]); !strings.Contains(got, "failed at") || strings.Contains(got, "with a reader") {
		t.Errorf("the message says %q", got)
	}
	h.follow(h.post("/queues/orders/retry", url.Values{"pick": {token(ids[0]), token("1795226400100027")}, "view": {"place=delayed"}})).
		says("1 message waiting now. 1 not delayed any more.")
	if s := h.stats(q); s.Waiting != 1 || s.Delayed != 1 {
		t.Errorf("%d wait and %d are delayed, want 1 and 1", s.Waiting, s.Delayed)
	}
}

// TestFailuresOfManyTenants: the page of a queue shows the first ones, and that of a queue with streams pauses none.
func TestFailuresOfManyTenants(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{Streams: 4})
	for i := range maxFailingShown + 2 {
		h.writeFailed(q, "x", fairqueue.Draft{Tenant: fmt.Sprint("t", i)})
	}
	h.look()
	page := h.get("/queues/orders").want(http.StatusOK)
	if n := len(page.all("data-failing", "*")); n != maxFailingShown {
		t.Errorf("the page of the queue has %d tenants, want %d", n, maxFailingShown)
	}
	page.says("2 more tenants not shown")
	page = h.get("/queues/orders/failures").want(http.StatusOK)
	if n, buttons := len(page.all("data-retry", "*")), len(page.all("data-quick", "*")); n != maxFailingShown+2 || buttons != 0 {
		t.Errorf("the page has %d tenants and %d of them to pause, want %d and 0", n, buttons, maxFailingShown+2)
	}
}
