package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
)

// TestSearchPage finds messages by what they are, and counts dead ones by their reasons.
func TestSearchPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	dead := h.bury(q, "no <b>address", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"})
	h.bury(q, "timeout", fairqueue.Draft{Tenant: "a"})
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
	h.get("/queues/orders/search?state=odd").want(http.StatusOK).says("not \"odd\"")
}
