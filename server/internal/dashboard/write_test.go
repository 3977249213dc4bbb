package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// TestWriteAMessage with all fields of the form. A wrong field leaves all as it was typed.
func TestWriteAMessage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("or<b>ders", fairqueue.Config{})
	path := "/queues/" + segment(q.Name()) + "/write"
	h.get(path).want(http.StatusOK).says("Write a message")
	form := url.Values{
		"tenant": {"acme"}, "delay": {"1h"}, "priority": {"2"}, "cost": {"350"},
		"body": {"</textarea><script>" + strings.Repeat("x", 20_000)}, "headers": {"kind: a: b\r\n\r\nempty:\r\n"},
	}
	for name, values := range map[string][]string{
		"tenant": {""}, "delay": {"soon", "-1s"}, "priority": {"high", "9"}, "cost": {"dear", "-1"}, "headers": {"kind", ": x", "a: 1\na: 2"},
	} {
		for _, value := range values {
			wrong := url.Values{}
			for field := range form {
				wrong.Set(field, form.Get(field))
			}
			wrong.Set(name, value)
			page := h.post(path, wrong).want(http.StatusBadRequest)
			page.one("data-flash", "bad")
			for _, field := range []string{"tenant", "delay", "priority", "cost"} {
				if got := page.value(field); got != wrong.Get(field) {
					t.Errorf("with a wrong %s the field %s has %q, want %q", name, field, got, wrong.Get(field))
				}
			}
			if got := page.one("id", "body"); got != form.Get("body") {
				t.Errorf("with a wrong %s the body has %d bytes, want %d", name, len(got), len(form.Get("body")))
			}
		}
	}
	h.follow(h.post(path, form)).says("is written.")
	messages, _, err := q.Browse(t.Context(), fairqueue.BrowseConfig{State: fairqueue.Delayed})
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages are delayed, %v, want one", len(messages), err)
	}
	m := messages[0]
	if m.Tenant != "acme" || m.Priority != 2 || m.Cost != 350 || string(m.Body) != form.Get("body") ||
		len(m.Headers) != 2 || m.Headers["kind"] != "a: b" || m.Headers["empty"] != "" || m.Until.Sub(m.Written) < 59*time.Minute {
		t.Errorf("the message is %+v", m)
	}
	h.get("/queues/" + segment(q.Name()) + "?place=delayed").says("cost 350")
	h.get("/audit").says("queue.write")
}

// TestWriteIsReadOnly where actions are off.
func TestWriteIsReadOnly(t *testing.T) {
	t.Parallel()
	h := build(t, func(cfg *Config) { cfg.Actions = false })
	q := h.queue("orders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "acme"})
	page := h.get("/queues/orders/write").want(http.StatusOK)
	page.says("These pages are read-only")
	if got := page.all("data-does", "*"); len(got) > 0 {
		t.Errorf("the page has a button %q", got)
	}
	h.post("/queues/orders/write", url.Values{"tenant": {"acme"}}).want(http.StatusForbidden)
	if s := h.stats(q); s.Waiting != 1 {
		t.Errorf("%d messages wait, want 1", s.Waiting)
	}
}
