package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
)

// TestSearchPage finds messages by their fields, and counts dead ones by their reasons.
func TestSearchPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	dead := h.writeDead(q, "no <b>address", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"})
	h.writeDead(q, "timeout", fairqueue.Draft{Tenant: "a"})
	ids := h.write(q, fairqueue.Draft{Tenant: "a", Body: []byte("a needle"), Headers: map[string]string{"k": "v"}}, fairqueue.Draft{Tenant: "b", Body: []byte("hay")})
	h.look()
	page := h.get("/queues/orders/search").want(http.StatusOK)
	page.says("looked at 3 of 3")
	if got := page.one("data-group", "no <b>address"); !strings.Contains(got, "2") {
		t.Errorf("the group says %q, want 2 messages", got)
	}
	for query, want := range map[string]string{
		"state=waiting&text=needle": ids[0], "state=waiting&header=k&value=v": ids[0], "state=waiting&id=" + ids[1]: ids[1],
		"state=waiting&tenant=b": ids[1], "state=dead&tenant=b&reason=no+%3Cb%3Eaddress": dead[1],
	} {
		page := h.get("/queues/orders/search?" + query).want(http.StatusOK)
		page.one("data-message", want)
		page.one("data-message", "*")
	}
	for id, state := range map[string]string{ids[0]: "waiting", dead[0]: "dead"} {
		if got, want := h.get("/queues/orders/messages/"+id).want(http.StatusSeeOther).header.Get("Location"), "/queues/orders/search?id="+id+"&state="+state; got != want {
			t.Errorf("the link to a message leads to %q, want %q", got, want)
		}
	}
	h.get("/queues/orders/messages/1795226400100027").want(http.StatusNotFound).says("has no message 1795226400100027")
	h.get("/queues/orders/messages/17").want(http.StatusBadRequest)
	h.get("/queues/orders/search?state=odd").want(http.StatusOK).says("not \"odd\"")
}

// TestMatchingDeadAreRedrivenAndPurged: a group of dead messages, and all that match a search.
func TestMatchingDeadAreRedrivenAndPurged(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	h.writeDead(q, "no address", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"}, fairqueue.Draft{Tenant: "b"})
	h.writeDead(q, "", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "a"})

	group := h.get("/queues/orders/search").want(http.StatusOK).one("data-group", "no reason given")
	if !strings.Contains(group, "2") {
		t.Errorf("the group says %q", group)
	}
	if n := len(h.get("/queues/orders/search?state=waiting").want(http.StatusOK).all("data-opens", "*")); n != 0 {
		t.Errorf("a search for waiting messages offers %d actions", n)
	}
	h.get("/queues/orders/search?state=dead&tenant=b&reason=no+address").want(http.StatusOK).says("Redeliver all that match, 2 dead messages?")

	view := url.Values{"state": {"dead"}, "tenant": {"b"}}.Encode()
	back := h.post("/queues/orders/redrive-matching", url.Values{"view": {view}})
	if got, want := back.header.Get("Location"), "/queues/orders/search?"+view; got != want {
		t.Errorf("the author is sent to %q, want %q", got, want)
	}
	h.follow(back).says(`2 messages waiting again, tenant "b"; looked at 5 of 5.`)
	view = url.Values{"state": {"dead"}, "reason": {"no reason given"}}.Encode()
	h.follow(h.post("/queues/orders/purge-matching", url.Values{"view": {view}, "confirm": {"order"}})).says("a different one")
	h.follow(h.post("/queues/orders/purge-matching", url.Values{"view": {"state=waiting"}, "confirm": {"orders"}})).says("he form is invalid")
	if s := h.stats(q); s.Waiting != 2 || s.Dead != 3 {
		t.Errorf("%d wait and %d are dead, want 2 and 3", s.Waiting, s.Dead)
	}
	h.follow(h.post("/queues/orders/purge-matching", url.Values{"view": {view}, "confirm": {"orders"}})).says(`2 messages deleted, reason "no reason given"; looked at 3 of 3.`)
	if s := h.stats(q); s.Waiting != 2 || s.Dead != 1 {
		t.Errorf("%d wait and %d are dead, want 2 and 1", s.Waiting, s.Dead)
	}
}

// TestReasonsAreBounded: reasons may have an id in them, and a page lists the largest groups.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	for i := range maxGroups + 2 {
		h.writeDead(q, "no order "+strings.Repeat("x", i), fairqueue.Draft{Tenant: "a"})
	}
	h.writeDead(q, "timeout", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "a"})
	page := h.get("/queues/orders/search").want(http.StatusOK)
	if rows := page.all("data-group", "*"); len(rows) != maxGroups || !strings.HasPrefix(rows[0], "timeout") {
		t.Errorf("%d groups, the first is %q", len(rows), rows[0])
	}
	page.says("3 more reasons, with fewer messages, not listed.")
}
