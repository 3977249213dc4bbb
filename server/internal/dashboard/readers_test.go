package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestReadersPage shows the readers and the messages in flight, sorts the readers, and hands a
// message back, whose reader then cannot acknowledge it.
func TestReadersPage(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("or ders", fairqueue.Config{})
	hostile := "te\x00nant<b>"
	ids := h.write(q, fairqueue.Draft{Tenant: hostile}, fairqueue.Draft{Tenant: "quiet"})
	taken, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: 2, Visibility: time.Hour})
	if err != nil || len(taken) != 2 {
		t.Fatalf("read %d messages: %v", len(taken), err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for name, concurrency := range map[string]int{"<small>": 2, "large": 30} {
		go func() {
			ended <- q.Consume(ctx, fairqueue.ConsumeConfig{Name: name, Concurrency: concurrency, Drain: time.Millisecond},
				func(ctx context.Context, _ fairqueue.Message) error { <-ctx.Done(); return ctx.Err() })
		}()
	}
	redistest.Eventually(t, "two readers", func() bool { return len(h.stats(q).Readers) == 2 })
	h.look()

	path := "/queues/or%20ders/readers"
	page := h.get(path).want(http.StatusOK)
	page.figures(map[string]string{"capacity": "32", "in-flight": "2"})
	page.says(`te\x00nant<b>`)
	page.says("a reader")
	h.get("/queues/or%20ders").want(http.StatusOK).says("Readers")
	readers := func(query string) (names []string, sorted string) {
		page := h.get(path + query).want(http.StatusOK)
		for n := range nodes(page.root, having("data-reader", "*")) {
			name, _ := attribute(n, "data-reader")
			names = append(names, name)
		}
		for n := range nodes(page.root, having("aria-sort", "*")) {
			sorted, _ = attribute(n, "aria-sort")
			sorted = text(n) + " " + sorted
		}
		return names, sorted
	}
	for _, c := range []struct{ query, first, sorted string }{
		{"?sort=concurrency&desc=1", "large", "Concurrency descending"},
		{"?sort=concurrency", "<small>", "Concurrency ascending"},
		{"?sort=name&desc=1", "large", "Name descending"},
		{"?sort=none", "<small>", ""},
	} {
		if names, sorted := readers(c.query); len(names) != 2 || names[0] != c.first || sorted != c.sorted {
			t.Errorf("%s shows %q, sorted %q, want %q first, sorted %q", c.query, names, sorted, c.first, c.sorted)
		}
	}
	end()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}

	only := h.get(path + "?tenant=quiet").want(http.StatusOK)
	if got := only.all("data-message", ids[1]); len(got) != 1 || len(only.all("data-message", "*")) != 1 {
		t.Errorf("of the tenant quiet the page shows %q", only.all("data-message", "*"))
	}
	pick := ""
	for n := range nodes(only.root, func(n *html.Node) bool { return having("name", "pick")(n) }) {
		pick, _ = attribute(n, "value")
	}
	done := h.post("/queues/or%20ders/return", url.Values{"pick": {pick}, "view": {"tenant=quiet"}})
	if got := done.header.Get("Location"); got != path+"?tenant=quiet" {
		t.Errorf("it leads to %s", got)
	}
	h.follow(done).says("1 message handed back.")
	h.follow(h.post("/queues/or%20ders/return", url.Values{"pick": {pick}})).says("0 messages handed back. 1 settled meanwhile.")
	if s := h.stats(q); s.Waiting != 1 || s.InFlight != 1 {
		t.Errorf("%d messages wait and %d are in flight, want one each", s.Waiting, s.InFlight)
	}
	i := slices.IndexFunc(taken, func(m fairqueue.Message) bool { return m.ID == ids[1] })
	if _, err := q.Ack(t.Context(), taken[i].Receipt); !errors.Is(err, millrace.ErrStale) {
		t.Errorf("the old receipt: %v, want stale", err)
	}
	h.follow(h.post("/queues/or%20ders/return", url.Values{"pick": {"x"}})).one("data-flash", "bad")
	h.get("/queues/none/readers").want(http.StatusNotFound)
}

// TestReadersPageIsReadOnly where actions are off.
func TestReadersPageIsReadOnly(t *testing.T) {
	t.Parallel()
	h := build(t, func(cfg *Config) { cfg.Actions = false })
	q := h.queue("orders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "acme"})
	taken, err := q.Read(t.Context(), fairqueue.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h.look()
	page := h.get("/queues/orders/readers").want(http.StatusOK)
	if strings.Contains(page.text, "checkbox") || strings.Contains(page.text, taken[0].Receipt) {
		t.Error("the page offers to choose messages")
	}
	h.post("/queues/orders/return", url.Values{"pick": {token(taken[0].Receipt)}}).want(http.StatusForbidden)
	if s := h.stats(q); s.InFlight != 1 {
		t.Errorf("%d in flight, want 1", s.InFlight)
	}
}
