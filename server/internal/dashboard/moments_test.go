package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
)

var timeOfDay = regexp.MustCompile(`\d\d:\d\d:\d\d`)

// Every time on a page names its zone, and has a form that a script can rewrite in the
// reader's zone.
func TestMomentsHaveAZone(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range everyPage {
		page := h.get(path).want(http.StatusOK)
		for n := range page.root.Descendants() {
			in := n.Type == html.TextNode && n.Parent.Data == "time" || n.Data == "time"
			if n.Type == html.TextNode && timeOfDay.MatchString(n.Data) && (!in || !strings.HasSuffix(n.Data, " UTC")) {
				t.Errorf("%s shows %q", path, n.Data)
			}
			if title, _ := attribute(n, "title"); timeOfDay.MatchString(title) && (!in || !strings.HasSuffix(title, " UTC")) {
				t.Errorf("%s has the title %q", path, title)
			}
			if at, _ := attribute(n, "datetime"); n.Data == "time" {
				if _, err := time.Parse(time.RFC3339, at); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
}

// A deadline that is not today's is shown with its date.
func TestDeadlineHasADate(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.write(h.queue("orders", fairqueue.Config{}), fairqueue.Draft{Tenant: "a", TTL: 50 * time.Hour})
	h.look()
	page := h.get("/queues/orders").want(http.StatusOK)
	if got, want := text(page.root), regexp.MustCompile(`deadline \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`); !want.MatchString(got) {
		t.Errorf("the page does not say %s:\n%s", want, got)
	}
}
