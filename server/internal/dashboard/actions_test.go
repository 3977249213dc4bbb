package dashboard

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/access"
)

func TestQueueIsPausedResumedAndResized(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{Streams: 8, PerTenant: 2})
	h.write(q, fairqueue.Draft{Tenant: "a"})

	h.follow(h.post("/queues/orders/pause", nil)).says("The queue is paused.")
	if !h.stats(q).Paused {
		t.Error("the queue is not paused")
	}
	page := h.get("/queues/orders") // the View is new, too
	if got := page.one("data-paused", ""); got != "paused" {
		t.Errorf("the page says %q", got)
	}
	h.follow(h.post("/queues/orders/resume", nil)).says("The queue is resumed.")
	if h.stats(q).Paused {
		t.Error("the queue is still paused")
	}
	h.follow(h.post("/queues/orders/resize", url.Values{"streams": {"32"}, "per_tenant": {"4"}})).says("32 streams now")
	if s := h.stats(q); s.Streams != 32 || s.PerTenant != 4 {
		t.Errorf("the queue has %d streams, %d a tenant", s.Streams, s.PerTenant)
	}
	h.follow(h.post("/queues/orders/resize", url.Values{"streams": {"many"}, "per_tenant": {"4"}})).says(`is not a number: "many"`)
	h.follow(h.post("/queues/orders/resize", url.Values{"streams": {"5000"}, "per_tenant": {"4"}})).says("up to 1024 streams")
	if s := h.stats(q); s.Streams != 32 {
		t.Errorf("the queue has %d streams", s.Streams)
	}
	h.follow(h.post("/queues/orders/resize", url.Values{"streams": {"8"}, "per_tenant": {"0"}})).says("8 streams now, and each tenant uses 4 of them")
	h.follow(h.post("/queues/orders/resize", url.Values{"streams": {"0"}, "per_tenant": {"0"}})).says("Each tenant is a flow now.")
	if s := h.stats(q); s.Streams != 0 || s.PerTenant != 0 {
		t.Errorf("the queue has %d streams, %d a tenant, want a flow for each tenant", s.Streams, s.PerTenant)
	}
}

func TestDeadLettersAreRedrivenAndPurged(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	ids := h.writeDead(q, "gone", fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "a"})

	back := h.post("/queues/orders/redrive", url.Values{"pick": {ids[0]}, "view": {"place=dead&tenant=a"}})
	if got, want := back.header.Get("Location"), "/queues/orders?place=dead&tenant=a"; got != want {
		t.Errorf("the author is sent to %q, want %q", got, want)
	}
	h.follow(back).says("1 message waiting again.")
	if s := h.stats(q); s.Waiting != 1 || s.Dead != 2 {
		t.Errorf("after redrive %d wait and %d are dead", s.Waiting, s.Dead)
	}

	h.follow(h.post("/queues/orders/purge", url.Values{"pick": {ids[1]}, "confirm": {"order"}})).says("a different one")
	h.follow(h.post("/queues/orders/purge", url.Values{"confirm": {"orders"}})).says("nothing was selected")
	if s := h.stats(q); s.Dead != 2 {
		t.Errorf("without a confirmation %d are dead, want 2", s.Dead)
	}
	h.follow(h.post("/queues/orders/purge", url.Values{"pick": {ids[0], ids[1]}, "confirm": {"orders"}})).says("1 message deleted. 1 not dead any more.")
	if s := h.stats(q); s.Dead != 1 {
		t.Errorf("after purge %d are dead, want 1", s.Dead)
	}
}

func TestMessagesAreCancelled(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	ids := h.write(q, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "a", Delay: time.Hour}, fairqueue.Draft{Tenant: "b"})
	h.follow(h.post("/queues/orders/cancel", url.Values{"pick": ids[:2]})).says("2 messages cancelled.")
	if s := h.stats(q); s.Waiting != 1 || s.Delayed != 0 {
		t.Errorf("%d wait and %d are delayed, want 1 and 0", s.Waiting, s.Delayed)
	}
}

func TestQueueIsDeleted(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	h.write(q, fairqueue.Draft{Tenant: "a"})
	h.follow(h.post("/queues/orders/delete", url.Values{"confirm": {"Orders"}})).says("a different one")
	if n, _ := q.Len(t.Context()); n != 1 {
		t.Fatal("the queue was deleted without a confirmation")
	}
	gone := h.post("/queues/orders/delete", url.Values{"confirm": {"orders"}})
	if got, want := gone.header.Get("Location"), "/queues"; got != want {
		t.Errorf("the author is sent to %q, want %q", got, want)
	}
	h.follow(gone).says("The queue orders is deleted")
	h.get("/queues/orders").want(http.StatusNotFound)
	h.follow(h.post("/queues/orders/delete", url.Values{"confirm": {"orders"}})).says("There is no such queue.")
}

func TestParkedMembersAreRetriedAndDropped(t *testing.T) {
	t.Parallel()
	h := build(t)
	k := h.park("documents", "a", "b", "c")
	h.look()
	if got := len(h.get("/icks/documents").all("data-member", "*")); got != 3 {
		t.Errorf("the page shows %d parked members, want 3", got)
	}
	h.follow(h.post("/icks/documents/retry", url.Values{"pick": {"a"}})).says("1 member marked again.")
	h.follow(h.post("/icks/documents/drop", url.Values{"pick": {"b"}})).says("a different one")
	h.follow(h.post("/icks/documents/drop", url.Values{"pick": {"b"}, "confirm": {"documents"}})).says("1 member deleted.")
	s, err := k.Stats(t.Context())
	if err != nil || s.Parked != 1 || s.Waiting.Size != 1 {
		t.Errorf("%d are parked and %d wait, %v; want 1 and 1", s.Parked, s.Waiting.Size, err)
	}
}

// everyAction are the paths of all actions that have no page of their own.
var everyAction = pathsOfActions()

// everyForm are all paths that change something.
var everyForm = append(pathsOfActions(), "/schedules/new", "/queues/orders/write")

func pathsOfActions() (paths []string) {
	for path := range actions {
		section, word, _ := strings.Cut(path, "/")
		paths = append(paths, "/"+section+"/"+map[string]string{"queues": "orders", "icks": "documents"}[section]+"/"+word)
	}
	for word := range scheduleActions {
		paths = append(paths, "/queues/orders/schedules/nightly/"+word)
	}
	for word := range tenantActions {
		paths = append(paths, "/queues/orders/tenants/acme/"+word)
	}
	return paths
}

// TestReadOnlyRefusesActions: read-only pages have no forms to act with, and posting them changes nothing.
func TestReadOnlyRefusesActions(t *testing.T) {
	t.Parallel()
	h := furnished(t, func(c *Config) { c.Actions = false })
	before := h.stats(h.queue("orders", fairqueue.Config{}))
	form := url.Values{"confirm": {"orders"}, "streams": {"1"}, "per_tenant": {"1"}, "pick": {"a"}}
	for _, path := range everyForm {
		h.post(path, form).want(http.StatusForbidden).says("--allow-actions")
	}
	after := h.stats(h.queue("orders", fairqueue.Config{}))
	if after.Paused || after.Streams != before.Streams || after.Dead != before.Dead || after.Waiting != before.Waiting {
		t.Errorf("the queue was %+v and is %+v", before, after)
	}
	said := h.do(http.MethodPost, "/queues/orders/pause", form, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Hx-Request": {"true"}}).want(http.StatusForbidden)
	if got := said.header.Get("Hx-Retarget"); got != "#main" {
		t.Errorf("a refusal is put into %q", got)
	}
	for _, path := range everyPage {
		for n := range nodes(h.get(path).root, func(n *html.Node) bool { return n.Data == "form" || n.Data == "dialog" || n.Data == "button" }) {
			if method, _ := attribute(n, "method"); n.Data == "dialog" || strings.EqualFold(method, "post") && countOf(n, "button") > 0 {
				t.Errorf("%s has a %s to act with", path, n.Data)
			}
		}
	}
}

func countOf(root *html.Node, tag string) (n int) {
	for range nodes(root, func(n *html.Node) bool { return n.Data == tag }) {
		n++
	}
	return n
}

func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	form := url.Values{"confirm": {"orders"}, "streams": {"1"}, "per_tenant": {"1"}}
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://elsewhere.example"}}, {"Origin": {"null"}},
	} {
		for _, path := range everyForm {
			h.do(http.MethodPost, path, form, header).want(http.StatusForbidden).says("another site")
		}
	}
	if s := h.stats(h.queue("orders", fairqueue.Config{})); s.Paused || s.Streams != 16 {
		t.Errorf("the queue is %+v", s)
	}
}

func TestActionsAreNoPages(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range everyAction {
		if got, want := h.get(path).want(http.StatusMethodNotAllowed).header.Get("Allow"), "POST"; got != want {
			t.Errorf("GET %s allows %q, want %q", path, got, want)
		}
	}
	if got, want := h.post("/queues", nil).want(http.StatusMethodNotAllowed).header.Get("Allow"), "GET, HEAD"; got != want {
		t.Errorf("POST /queues allows %q, want %q", got, want)
	}
}

func TestActionsAreLogged(t *testing.T) {
	t.Parallel()
	log := &redistest.Log{}
	h := build(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	h.as(access.Client{Name: "ada"})
	h.write(h.queue("orders", fairqueue.Config{}), fairqueue.Draft{Tenant: "a"})
	h.post("/queues/orders/pause", nil).want(http.StatusSeeOther)
	h.post("/queues/none/pause", nil).want(http.StatusSeeOther)
	for _, want := range []string{
		`msg="a manual action" action=queue.pause name=orders who=ada`,
		`msg="a manual action failed" action=queue.pause name=none who=ada`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// TestViewersOnlyLook: their pages have no buttons, and a form that they send is refused.
func TestViewersOnlyLook(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	if n := strings.Count(h.get("/queues/orders").want(http.StatusOK).text, "command=\"show-modal\""); n == 0 {
		t.Error("an operator's page has no dialogs")
	}
	for _, role := range []access.Role{access.Viewer, access.Worker} {
		h.as(access.Client{Name: "ada", Role: role})
		for _, path := range []string{"/queues/orders", "/queues/orders/write", "/schedules/new", "/icks/documents"} {
			page := h.get(path).want(http.StatusOK).text
			for _, part := range []string{"command=\"show-modal\"", "data-does="} {
				if strings.Contains(page, part) {
					t.Errorf("%s of a %s has %s", path, role, part)
				}
			}
		}
		for _, path := range everyAction {
			h.post(path, nil).want(http.StatusForbidden).says("These credentials have the role " + string(role))
		}
	}
}

func TestFormsHaveAnEnd(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	h.post("/queues/orders/cancel", url.Values{"pick": {strings.Repeat("a", maxForm)}}).want(http.StatusBadRequest).says("The form is invalid")
	h.follow(h.post("/queues/orders/cancel", url.Values{"pick": {"~!"}})).says("The form is invalid")
	h.follow(h.post("/queues/orders/cancel", url.Values{"pick": {"no id"}}))
}

func TestFlashIsSaidOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.write(h.queue("orders", fairqueue.Config{}), fairqueue.Draft{Tenant: "a"})
	said := h.follow(h.post("/queues/orders/pause", nil))
	if got := said.one("data-flash", "good"); got != "The queue is paused." {
		t.Errorf("the page says %q", got)
	}
	cookies := (&http.Response{Header: said.header}).Cookies()
	if len(cookies) != 1 || cookies[0].MaxAge >= 0 {
		t.Errorf("the message is not taken back: %v", cookies)
	}
	for _, value := range []string{"!", "", "bm8ganNvbg", "eyJ0IjoiXCI+PGI+IiwicyI6Ijxzb21ldGhpbmc+In0"} {
		h.do(http.MethodGet, "/", nil, http.Header{"Cookie": {flashCookie + "=" + value}}).want(http.StatusOK).harmless()
	}
	if got := cut("aéé", 2); got != "a…" {
		t.Errorf("cut = %q", got)
	}
}

// A browser presses a form's first submit button when Enter is typed in it. Where a
// form has several dialogs that must do nothing: they may be closed, or another is meant.
func TestEnterDoesNothingInAList(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range []string{"/queues/orders", "/queues/orders?place=dead", "/icks/documents"} {
		lists := 0
		for form := range nodes(h.get(path).want(http.StatusOK).root, func(n *html.Node) bool { return n.Data == "form" }) {
			if len(slices.Collect(nodes(form, having("data-pick-all", "")))) == 0 {
				continue
			}
			lists++
			first := slices.Collect(nodes(form, having("type", "submit")))[0]
			if method, _ := attribute(first, "formmethod"); method != "dialog" {
				t.Errorf("Enter on %s does what %q does", path, text(first))
			}
		}
		if lists != 1 {
			t.Errorf("%s has %d lists, want 1", path, lists)
		}
	}
}

// failing is a body whose reading fails.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// TestFormsThatDoNotArrive: a page says why a form was not read.
func TestFormsThatDoNotArrive(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for name, tt := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"too slow":            {fmt.Errorf("read: %w", os.ErrDeadlineExceeded), http.StatusRequestTimeout, "did not arrive in time"},
		"no memory is left":   {&millrace.Error{Code: "busy", Message: "the service is busy"}, http.StatusServiceUnavailable, "The service is busy"},
		"the client has gone": {io.ErrUnexpectedEOF, http.StatusBadRequest, "The form is invalid"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/queues/orders/pause", failing{tt.err})
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.pages.ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("%s: %d, want %d with %q", name, w.Code, tt.status, tt.says)
		}
	}
}
