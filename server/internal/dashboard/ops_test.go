package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
)

// TestThePagesHaveAllForms: each operation that names a form has one.
func TestThePagesHaveAllForms(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.write(h.queue("orders", fairqueue.Config{}), fairqueue.Draft{Tenant: "acme"})
	there := func(form string) bool {
		section, word, _ := strings.Cut(form, "/")
		path := "/" + section + "/orders/" + word
		switch {
		case section == "tenants":
			path = "/queues/orders/tenants/acme/" + word
		case form == "schedules/new":
			path = "/schedules/new"
		case section == "batches":
			path = "/queues/orders/batches/1795226400100321/" + word
		case section == "schedules":
			path = "/queues/orders/schedules/daily/" + word
		}
		return h.post(path, url.Values{}).status != http.StatusNotFound
	}
	for _, row := range ops.All() {
		switch {
		case row.Form != "" && !there(row.Form):
			t.Errorf("%s: the pages have no form %s", row.ID, row.Form)
		case row.Form == "" && row.Only == "" && row.Class.Audited():
			t.Errorf("%s: people do it, and the pages have no form for it", row.ID)
		}
	}
	for _, form := range []string{"queues/close", "tenants/close"} {
		if there(form) {
			t.Errorf("the form %s, which nobody added, is there", form)
		}
	}
}
