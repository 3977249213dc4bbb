package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/steal"
)

// furnish puts some of everything into the house.
func (h *house) furnish() {
	h.t.Helper()
	ctx := h.t.Context()
	orders := h.queue("orders", fairqueue.Config{Streams: 16, PerTenant: 2})
	h.writeDead(orders, "the endpoint is gone", fairqueue.Draft{Tenant: "acme", Body: []byte(`{"n":1}`)})
	h.write(orders, fairqueue.Draft{Tenant: "acme", Body: []byte("one")}, fairqueue.Draft{Tenant: "acme", Body: []byte("two")},
		fairqueue.Draft{Tenant: "globex", Body: []byte("three"), Headers: map[string]string{"trace": "abc"}},
		fairqueue.Draft{Tenant: "acme", Body: []byte("later"), Delay: time.Hour})
	if _, err := orders.Read(ctx, fairqueue.ReadConfig{Visibility: time.Hour}); err != nil {
		h.t.Fatal(err)
	}
	h.park("documents", "doc:bad")
	documents, _ := ick.New(h.client, "documents", ick.Config{})
	thumbnails, err := ick.NewChannel(h.client, "thumbnails", ick.ChannelConfig{Size: 2})
	if err != nil {
		h.t.Fatal(err)
	}
	locker, err := lease.New(h.client, lease.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	sessions, err := expiry.Open(ctx, h.client, "sessions", expiry.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	pages, err := pinned.Open(ctx, h.client, "rendered", pinned.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"marks":   func() error { _, err := documents.AddNow(ctx, "doc:1", "doc:2"); return err },
		"folding": func() error { _, err := documents.AddNow(ctx, "doc:1", "doc:2"); return err },
		"channel": func() error {
			_, err := thumbnails.AddNow(ctx, strings.Fields("a b c d e f g h i j k l m n o p")...)
			return err
		},
		"lease": func() error {
			_, err := locker.Acquire(ctx, "nightly", time.Hour, lease.AcquireConfig{Metadata: "host a", Token: "secret-token"})
			return err
		},
		"hash":  func() error { _, err := sessions.Set(ctx, "u", "f", nil, expiry.SetConfig{TTL: time.Hour}); return err },
		"value": func() error { _, err := pages.Set(ctx, "k", nil, time.Hour, pinned.SetConfig{}); return err },
		"steal": func() error { return h.recruit() },
	} {
		if err := do(); err != nil {
			h.t.Fatalf("%s: %v", what, err)
		}
	}
}

// recruit has a recruiter run a job once and publish that.
func (h *house) recruit() error {
	r := steal.New(steal.Config{})
	job := millrace.Job{Name: "test.job", Slice: func(context.Context) (millrace.Progress, error) { return millrace.Worked, nil }}
	if err := r.Install(job, 1); err != nil {
		return err
	}
	r.Enlist(h.t.Context())
	ctx, cancel := context.WithCancel(h.t.Context())
	published := make(chan error, 1)
	go func() {
		published <- upkeep.Publish(ctx, r, h.client, upkeep.PublishConfig{Interval: 20 * time.Millisecond})
	}()
	defer func() { cancel(); <-published }()
	for {
		totals, err := upkeep.ReadTotals(h.t.Context(), h.client)
		if err != nil || len(totals.Jobs) > 0 {
			return err
		}
		select {
		case err := <-published:
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// everyPage are the paths of all pages in a house that is furnished.
var everyPage = []string{
	"/", "/queues", "/queues/orders", "/queues/orders?place=dead", "/queues/orders?place=in_flight", "/queues/orders?place=delayed&by=oldest",
	"/icks", "/icks/documents", "/channels/thumbnails", "/icks/" + segment("thumbnails/0"), "/stealing", "/leases", "/namespaces", "/fleet",
	"/counters", "/counters?name=impressions", "/doctor", "/audit", "/queues/orders/readers", "/queues/orders/failures", "/queues/orders/write", "/queues/orders/search", "/queues/orders/search?state=dead",
}

func furnished(t *testing.T, changes ...func(*Config)) *house {
	t.Helper()
	h := build(t, append(changes, func(c *Config) {
		counters, err := scatter.New(scatter.Clients(c.Client), scatter.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(counters.Close)
		session := counters.Session("")
		session.Add("impressions", 1204)
		if err := session.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Counters = counters
	})...)
	h.furnish()
	h.look()
	return h
}

func TestPagesShowTheNumbers(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	h.get("/").want(http.StatusOK).says("Queue orders has 1 dead letter.")
	h.get("/queues").want(http.StatusOK).says("orders")
	h.get("/queues/orders").want(http.StatusOK).figures(map[string]string{
		"waiting": "2", "in-flight": "1", "delayed": "1", "dead": "1", "acked": "0", "streams": "16",
	})
	h.get("/icks/documents").want(http.StatusOK).figures(map[string]string{"waiting": "2", "parked": "1", "reserved": "0"})
	h.get("/channels/thumbnails").want(http.StatusOK).figures(map[string]string{"waiting": "16"})
	h.get("/stealing").want(http.StatusOK).figures(map[string]string{"jobs": "1", "recruited": "1"})
	h.get("/leases").want(http.StatusOK).says("host a")
	namespaces := h.get("/namespaces").want(http.StatusOK)
	namespaces.says("sessions")
	namespaces.says("rendered")
	h.get("/counters?name=impressions").want(http.StatusOK).figures(map[string]string{"sum": "1,204", "answered": "1 of 1"})
	h.get("/doctor").want(http.StatusOK).says("noeviction")
	h.get("/fleet").want(http.StatusOK).says("millrace demo fleet")
}

func TestMessagesAreBrowsed(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	messages := func(path string) []string { return h.get(path).want(http.StatusOK).all("data-message", "*") }
	if got := messages("/queues/orders"); len(got) != 2 {
		t.Errorf("%d messages wait, want 2: %q", len(got), got)
	}
	if got := messages("/queues/orders?place=delayed"); len(got) != 1 || !strings.Contains(got[0], "later") {
		t.Errorf("delayed are %q", got)
	}
	dead := messages("/queues/orders?place=dead")
	if len(dead) != 1 || !strings.Contains(dead[0], "the endpoint is gone") || !strings.Contains(dead[0], `{ "n": 1 }`) {
		t.Errorf("dead are %q", dead)
	}
	if got := messages("/queues/orders?place=dead&tenant=globex"); len(got) != 0 {
		t.Errorf("of globex are dead %q", got)
	}
	if got := messages("/queues/orders?place=dead&after=1"); len(got) != 0 {
		t.Errorf("after the first are dead %q", got)
	}
	h.get("/queues/orders?place=elsewhere").want(http.StatusOK).says("not \"elsewhere\"")
}

func TestDeadMessagesHavePages(t *testing.T) {
	t.Parallel()
	h := build(t)
	q := h.queue("orders", fairqueue.Config{})
	drafts := make([]fairqueue.Draft, maxRows+2)
	for i := range drafts {
		drafts[i].Tenant = "acme"
	}
	h.writeDead(q, "", drafts...)
	h.look()
	first := h.get("/queues/orders?place=dead")
	if got, want := len(first.all("data-message", "*")), maxRows; got != want {
		t.Errorf("the first page has %d, want %d", got, want)
	}
	var next string
	for n := range nodes(first.root, having("rel", "next")) {
		next, _ = attribute(n, "href")
	}
	path, _, _ := strings.Cut(next, "#")
	if got := len(h.get(path).all("data-message", "*")); got != 2 {
		t.Errorf("the page %q has %d, want 2", next, got)
	}
}

// TestPagesNeedNothingInline: no page has scripts or styles in it, and the policy forbids them.
func TestPagesNeedNothingInline(t *testing.T) {
	t.Parallel()
	for _, actions := range []bool{true, false} {
		h := furnished(t, func(c *Config) { c.Actions = actions })
		for _, path := range append(everyPage, "/nowhere") {
			a := h.get(path)
			if csp := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self';") {
				t.Errorf("%s: CSP %q", path, csp)
			}
			if got := a.header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s: Cache-Control %q", path, got)
			}
			for n := range nodes(a.root, func(*html.Node) bool { return true }) {
				if n.Data == "script" && n.FirstChild != nil || n.Data == "style" {
					t.Errorf("%s has an inline %s", path, n.Data)
				}
				for _, one := range n.Attr {
					if one.Key == "style" || strings.HasPrefix(one.Key, "on") || strings.HasPrefix(one.Key, "hx-on") ||
						strings.HasPrefix(strings.ToLower(strings.TrimSpace(one.Val)), "javascript:") {
						t.Errorf("%s has %s=%q", path, one.Key, one.Val)
					}
				}
			}
		}
	}
}

// places are the attributes that lead somewhere.
var places = []string{"href", "src", "action", "formaction", "hx-get", "hx-post", "sse-connect", "data-source"}

func TestPrefixIsBeforeEverything(t *testing.T) {
	t.Parallel()
	h := furnished(t, func(c *Config) { c.Prefix = "/ops" })
	for _, path := range everyPage {
		a := h.get(path).want(http.StatusOK)
		for n := range nodes(a.root, func(*html.Node) bool { return true }) {
			for _, name := range places {
				to, ok := attribute(n, name)
				if ok && to != "" && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "/ops/") {
					t.Errorf("%s has %s=%q", path, name, to)
				}
			}
		}
	}
	root := h.get("").want(http.StatusPermanentRedirect)
	if got := root.header.Get("Location"); got != "/ops/" {
		t.Errorf("/ops leads to %q", got)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	seen := map[string]bool{}
	for _, path := range everyPage {
		for n := range nodes(h.get(path).root, func(*html.Node) bool { return true }) {
			for _, name := range []string{"href", "src", "hx-get", "data-source"} {
				to, ok := attribute(n, name)
				to, _, _ = strings.Cut(to, "#")
				if !ok || to == "" || seen[to] {
					continue
				}
				seen[to] = true
				if got := h.get(to).status; got != http.StatusOK {
					t.Errorf("%s leads to %s, which answers %d", path, to, got)
				}
			}
		}
	}
}

func TestElementsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range everyPage {
		a := h.get(path)
		ids := map[string]int{}
		for n := range nodes(a.root, having("id", "*")) {
			id, _ := attribute(n, "id")
			ids[id]++
		}
		for n := range nodes(a.root, func(*html.Node) bool { return true }) {
			for _, name := range []string{"for", "commandfor", "aria-labelledby"} {
				if id, ok := attribute(n, name); ok && ids[id] != 1 {
					t.Errorf("%s: %s=%q names %d elements", path, name, id, ids[id])
				}
			}
			if n.Data == "table" && len(slices.Collect(nodes(n, func(n *html.Node) bool { return n.Data == "caption" }))) != 1 {
				t.Errorf("%s has a table without a caption", path)
			}
		}
		for id, n := range ids {
			if n != 1 {
				t.Errorf("%s: %d elements have the id %q", path, n, id)
			}
		}
	}
}

func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range everyPage {
		if strings.Contains(h.get(path).text, "secret-token") {
			t.Errorf("%s shows a lease's token", path)
		}
	}
}

func TestUnknownStructureIsNotFound(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.look()
	for _, path := range []string{"/queues/none", "/icks/none", "/channels/none", "/live/queues/none", "/nowhere", "/queues/~!", "/charts/none/a.json",
		"/charts/queue/a", "/assets/none", "//queues", "/queues/../doctor", "/queues/"} {
		h.get(path).want(http.StatusNotFound)
	}
}

// A queue that began a moment ago is asked by itself.
func TestNewStructureHasAPageAtOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.look()
	h.write(h.queue("new", fairqueue.Config{}), fairqueue.Draft{Tenant: "a"})
	h.get("/queues/new").want(http.StatusOK).figures(map[string]string{"waiting": "1"})
}

func TestHeadIsAnswered(t *testing.T) {
	t.Parallel()
	h := furnished(t)
	for _, path := range append(everyPage, "/live/queues", "/assets/base.css") {
		a := h.do(http.MethodHead, path, nil, nil).want(http.StatusOK)
		if a.text != "" {
			t.Errorf("HEAD %s has a body", path)
		}
	}
}

func TestNewRefusesWhatItCannotHave(t *testing.T) {
	t.Parallel()
	h := build(t)
	for name, cfg := range map[string]Config{
		"no client": {Survey: h.survey}, "no survey": {Client: h.client},
		"prefix without slash": {Client: h.client, Survey: h.survey, Prefix: "ops"},
		"prefix with slash":    {Client: h.client, Survey: h.survey, Prefix: "/ops/"},
	} {
		if _, err := New(cfg); millrace.Code(err) != millrace.ErrBadArgument.Code {
			t.Errorf("%s: New = %v, want %v", name, err, millrace.ErrBadArgument)
		}
	}
}

func TestCountersSayWhatTheyCannot(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.look()
	h.get("/counters?name=x").want(http.StatusOK).says("No servers")

	h = furnished(t)
	h.get("/counters?name=" + url.QueryEscape("a\nb")).want(http.StatusOK).says("control character")
	if err := h.client.Do(t.Context(), h.client.B().Set().Key("fraction").Value("12.25").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	h.get("/counters?name=fraction").want(http.StatusOK).figures(map[string]string{"sum": "12.25"})
	h.get("/counters?name=never").want(http.StatusOK).figures(map[string]string{"sum": "0"})
}

// TestSectionsOfWhatIsThere: the navigation has what every service has, and kinds of which something is there.
func TestSectionsOfWhatIsThere(t *testing.T) {
	t.Parallel()
	of := func(page answer) (names []string) {
		for n := range nodes(page.root, func(n *html.Node) bool { id, _ := attribute(n, "id"); return id == "nav" }) {
			for a := range nodes(n, func(n *html.Node) bool { return n.Data == "a" }) {
				key, _ := attribute(a, "data-key")
				names = append(names, key)
			}
		}
		return names
	}
	empty := on(t, newStage(viewOf(0)))
	if got, want := of(empty.get("/").want(http.StatusOK)), []string{"Overview", "Queues", "Doctor", "Audit log"}; !slices.Equal(got, want) {
		t.Errorf("without structures the sections are %q, want %q", got, want)
	}
	if got := of(empty.get("/leases").want(http.StatusOK)); !slices.Contains(got, "Leases") {
		t.Errorf("on its own page a section is not there: %q", got)
	}
	v := viewOf(1)
	v.Leases = []lease.Info{{Name: "a", Held: true}}
	if got := of(on(t, newStage(v)).get("/").want(http.StatusOK)); !slices.Contains(got, "Leases") {
		t.Errorf("with a lease the sections are %q", got)
	}
}
