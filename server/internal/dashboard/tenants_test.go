package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/ops"
)

// TestTenantPages pauses, limits, resumes and purges a tenant with the forms of its page.
func TestTenantPages(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("or ders", fairqueue.Config{})
	noisy := "noi/sy\x00<b>"
	h.write(q, fairqueue.Draft{Tenant: noisy}, fairqueue.Draft{Tenant: noisy}, fairqueue.Draft{Tenant: "quiet"},
		fairqueue.Draft{Tenant: "eu"})
	h.look()
	opened := h.get("/queues/or%20ders/tenants?tenant=" + url.QueryEscape(noisy)).want(http.StatusSeeOther)
	path := opened.header.Get("Location")
	page := h.get(path).want(http.StatusOK)
	page.figures(map[string]string{"waiting": "2", "share": "50%"})
	page.says("It has no limits of its own, and the queue has no default that counts for it.")

	page = h.follow(h.post(path+"/pause", url.Values{"minutes": {"10"}}))
	if got := page.one("data-state", ""); !strings.HasPrefix(got, "paused for ") {
		t.Errorf("its state is %q, want for how long it is paused", got)
	}
	page = h.follow(h.post(path+"/pause", url.Values{"view": {"queue"}}))
	if got := page.one("data-quick", "t"+token(noisy)); got != "Resume" {
		t.Errorf("the list offers to %q it", got)
	}
	if messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: 10}); err != nil || len(messages) != 2 {
		t.Errorf("read %d messages, %v, want those of the two others", len(messages), err)
	}
	page = h.follow(h.post(path+"/resume", url.Values{}))
	if got := page.all("data-state", ""); len(got) > 0 {
		t.Errorf("it is %q after it was resumed", got)
	}

	wrong := h.follow(h.post(path+"/limits", url.Values{"weight": {"3"}, "rate": {"often"}}))
	if got := wrong.one("data-flash", "bad"); !strings.Contains(got, "often") {
		t.Errorf("the page says %q, want to read of the rate", got)
	}
	for name, value := range map[string]string{"weight": "3", "rate": "often"} {
		if got := wrong.value(name); got != value {
			t.Errorf("the field %s has %q, want what was typed", name, got)
		}
	}
	for _, bad := range []url.Values{{"weight": {"1e9"}}, {"in_flight": {"1.5"}}, {"share": {"200"}}, {"burst": {"5"}, "rate": {"0"}}, {"rate": {"+Inf"}}} {
		h.follow(h.post(path+"/limits", bad)).one("data-flash", "bad")
	}
	limited := url.Values{"weight": {"3"}, "in_flight": {"4"}, "share": {"25"}, "rate": {"100/m"}, "burst": {"7"}, "waiting": {"2"}}
	page = h.follow(h.post(path+"/limits", limited))
	page.says("It has limits of its own, weight, max in flight, max share, rate, burst, max waiting")
	for name := range limited {
		if got := page.value(name); got != limited.Get(name) {
			t.Errorf("the field %s has %q, want %q", name, got, limited.Get(name))
		}
	}
	l, err := q.Limits().Get(t.Context(), noisy)
	want := queuestats.Limits{Weight: 3, MaxInFlight: 4, MaxShare: 0.25, Rate: 100.0 / 60, Burst: 7, MaxWaiting: 2}
	if err != nil || len(ops.OwnNames(l.Own)) != 6 || l.Limits != want {
		t.Errorf("limits are %+v, %v, want %+v, all its own but the pause", l, err, want)
	}
	limited.Set("rate", "")
	limited.Set("in_flight", "0")
	page = h.follow(h.post(path+"/limits", limited))
	page.says("It has limits of its own, weight, max in flight, max share, burst, max waiting")
	if got := page.value("in_flight"); got != "0" {
		t.Errorf("the field in_flight has %q, want 0, which is no limit whatever the default", got)
	}
	h.follow(h.post(path+"/clear", url.Values{})).says("It has no limits of its own")

	h.follow(h.post(path+"/purge", url.Values{})).one("data-flash", "bad")
	h.get(path).says("Delete 2 waiting messages of noi")
	page = h.follow(h.post(path+"/purge", url.Values{"confirm": {label(noisy)}}))
	if got := page.one("data-flash", "good"); !strings.HasPrefix(got, "2 messages of noi") {
		t.Errorf("the page says %q", got)
	}
}

// TestDefaultPage sets limits for all, and shows them on the page of a tenant that has none of its own.
func TestDefaultPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "acme"})
	h.look()
	page := h.follow(h.post("/queues/orders/tenants/~/limits", url.Values{"in_flight": {"5"}}))
	page.says("All other tenants")
	h.get("/queues/orders/tenants/acme").want(http.StatusOK).says("these are the default of the queue")
	h.follow(h.post("/queues/orders/tenants/~/pause", url.Values{})).one("data-flash", "bad")
	h.follow(h.post("/queues/orders/tenants/acme/pause", url.Values{"minutes": {"soon"}})).one("data-flash", "bad")
	h.follow(h.post("/queues/orders/tenants/acme/pause", url.Values{"minutes": {"0"}})).one("data-state", "")
	h.get("/queues/none/tenants/acme").want(http.StatusNotFound)
}

// TestTenantPagesAreReadOnly where actions are off.
func TestTenantPagesAreReadOnly(t *testing.T) {
	t.Parallel()
	h := build(t, func(cfg *Config) { cfg.Actions = false })
	q := h.queue("orders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "acme"})
	h.look()
	for word := range tenantActions {
		h.post("/queues/orders/tenants/acme/"+word, url.Values{"confirm": {"acme"}}).want(http.StatusForbidden)
	}
	for _, path := range []string{"/queues/orders", "/queues/orders/tenants/acme"} {
		page := h.get(path).want(http.StatusOK)
		for n := range nodes(page.root, having("method", "post")) {
			action, _ := attribute(n, "action")
			if len(page.all("data-does", "*"))+len(page.all("data-quick", "*")) > 0 {
				t.Errorf("%s has a button of %s", path, action)
			}
		}
	}
	if s := h.stats(q); s.Waiting != 1 {
		t.Errorf("%d messages wait, want the one", s.Waiting)
	}
}

// value returns the value of a field of a form.
func (a answer) value(id string) string {
	a.t.Helper()
	for n := range nodes(a.root, having("id", id)) {
		value, _ := attribute(n, "value")
		return value
	}
	a.t.Fatalf("there is no field %s", id)
	return ""
}
