package dashboard

import (
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule"
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

// TestListsAreSorted by each column that has an order; the head leads to it.
func TestListsAreSorted(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	spec, err := schedule.Every(24 * time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	daily := fairqueue.Schedule{Name: "daily", Spec: spec, Draft: fairqueue.Draft{Tenant: "a"}}
	if err := h.queue("orders", fairqueue.Config{}).Schedules().Set(t.Context(), daily); err != nil {
		t.Fatal(err)
	}
	h.look()
	for _, path := range []string{"/queues", "/icks", "/leases", "/schedules"} {
		page, sorted := h.get(path).want(http.StatusOK), 0
		for n := range nodes(page.root, func(n *html.Node) bool { return n.Data == "th" && n.Parent.Parent.Data == "thead" }) {
			for link := range nodes(n, func(n *html.Node) bool { return n.Data == "a" }) {
				href, _ := attribute(link, "href")
				if got := len(h.get(href).want(http.StatusOK).all("aria-sort", "*")); got != 1 {
					t.Errorf("%s is sorted by %d columns", href, got)
				}
				sorted++
			}
		}
		if sorted < 4 {
			t.Errorf("%s can be sorted by %d columns", path, sorted)
		}
	}
}
