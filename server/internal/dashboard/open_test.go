package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"golang.org/x/net/html"

	"github.com/millrace/millrace/internal/survey"
)

// TestOpenByName types names into the forms of lists in which they are not.
func TestOpenByName(t *testing.T) {
	t.Parallel()
	h := furnished(t, func(c *Config) { c.Prefix, c.Survey = "/ops", newStage(&survey.View{}) })
	for _, c := range []struct{ list, name, page string }{
		{"/queues", "orders", "/ops/queues/orders"},
		{"/icks", "documents", "/ops/icks/documents"},
		{"/icks", "thumbnails", "/ops/channels/thumbnails"},
		{"/icks", "thumbnails/0", "/ops/icks/" + segment("thumbnails/0")},
	} {
		forms := slices.Collect(nodes(h.get(c.list).want(http.StatusOK).root, func(n *html.Node) bool { return n.Data == "form" }))
		if len(forms) != 1 {
			t.Fatalf("%s has %d forms, want 1", c.list, len(forms))
		}
		to, _ := attribute(forms[0], "action")
		page := h.get(to[len("/ops"):] + "?name=" + url.QueryEscape(c.name)).want(http.StatusSeeOther).header.Get("Location")
		if page != c.page {
			t.Errorf("%s opens %q at %s, want %s", c.list, c.name, page, c.page)
		}
		h.get(page[len("/ops"):]).want(http.StatusOK)
	}
	h.get("/open/leases?name=a").want(http.StatusNotFound)
	if got := h.get("/open/icks").want(http.StatusSeeOther).header.Get("Location"); got != "/ops/icks" {
		t.Errorf("no name leads to %s", got)
	}
	if got := h.get("/open/queues?name=" + url.QueryEscape("//evil.example/..")).header.Get("Location"); got != "/ops/queues/"+segment("//evil.example/..") {
		t.Errorf("a strange name leads to %s", got)
	}
}
