package dashboard

import (
	"net/http"
	"testing"

	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
)

// TestQueuesAreSorted by the column of the path; the head of that column says so.
func TestQueuesAreSorted(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.write(h.queue("a", fairqueue.Config{}), fairqueue.Draft{Tenant: "x"})
	h.write(h.queue("b", fairqueue.Config{}), fairqueue.Draft{Tenant: "x"}, fairqueue.Draft{Tenant: "x"})
	h.look()
	for query, want := range map[string]string{"": "ab", "?sort=waiting&desc=1": "ba", "?sort=waiting": "ab", "?sort=name&desc=1": "ba", "?sort=odd": "ab"} {
		page, got := h.get("/queues"+query).want(http.StatusOK), ""
		for n := range nodes(page.root, func(n *html.Node) bool { return n.Data == "tr" && having("data-key", "*")(n) }) {
			key, _ := attribute(n, "data-key")
			got += key
		}
		if got != want {
			t.Errorf("%q has the order %q, want %q", query, got, want)
		}
	}
	if got := h.get("/queues?sort=waiting&desc=1").one("aria-sort", "descending"); got != "Waiting" {
		t.Errorf("the list is sorted by %q", got)
	}
}
