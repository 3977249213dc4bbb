package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/lease"
)

// hostile are names chosen to do harm.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `</title><script>`,
	"..", ".", "../../doctor", "a/b", `a\b`, "a%2fb", "a b+c&d=e#f?g", "~", "~YQ", "live", "ünï ćødé", "\u202egnp.exe", "\u200b", "\u2066\u2069",
	"\xff\xfe", "a\u0085b", strings.Repeat("long", 128), "[[.]]", "`$1`",
}

// harmless fails if a page has an element that only a name can have brought.
func (a answer) harmless() {
	a.t.Helper()
	const invisible = "\u202e\u200b\u2066\u2069\u0085\x1b"
	for n := range nodes(a.root, func(*html.Node) bool { return true }) {
		if n.Data == "script" && n.FirstChild != nil || n.Data == "img" {
			a.t.Errorf("there is a strange <%s>", n.Data)
		}
		for _, one := range n.Attr {
			if strings.HasPrefix(one.Key, "on") || strings.Contains(one.Key, "alert") || one.Key == "href" && strings.HasPrefix(one.Val, "javascript:") {
				a.t.Errorf("<%s> has %s=%q", n.Data, one.Key, one.Val)
			}
			if n.Data != "input" && strings.ContainsAny(one.Val, invisible) { // a typed text stays as it was
				a.t.Errorf("<%s> has an invisible character in %s=%q", n.Data, one.Key, one.Val)
			}
		}
	}
	if got := text(a.root); strings.ContainsAny(got, invisible) {
		a.t.Errorf("the page has an invisible character: %q", got)
	}
}

// TestHostileNamesAreShownAndFound: names with markup, control characters and odd bytes are shown as text, and
// their links work.
func TestHostileNamesAreShownAndFound(t *testing.T) {
	t.Parallel()
	h := build(t)
	locker, err := lease.New(h.client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range hostile {
		q := h.queue(name, fairqueue.Config{Streams: 4, PerTenant: 2})
		h.writeDead(q, name, fairqueue.Draft{Tenant: name, Body: []byte(name)})
		h.write(q, fairqueue.Draft{Tenant: name, Body: []byte(name + "\n\x1b[31m"), Headers: map[string]string{"a" + strings.ToValidUTF8(name, ""): strings.ToValidUTF8(name, "")}})
		k, err := ick.New(h.client, name, ick.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.AddNow(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := locker.Acquire(t.Context(), name, names.MaxLeaseTTL, lease.AcquireConfig{Metadata: name}); err != nil {
			t.Fatal(err)
		}
	}
	h.park("parked", hostile...)
	h.look()
	for _, path := range []string{"/", "/queues", "/icks", "/icks/parked", "/leases"} {
		h.get(path).want(http.StatusOK).harmless()
	}
	for _, name := range hostile {
		for _, path := range []string{
			h.pages.link("queues", name), h.pages.link("queues", name) + "?place=dead", h.pages.link("icks", name),
			query(h.pages.link("queues", name), "by", name, "tenant", name), query("/counters", "name", name),
		} {
			a := h.get(path).want(http.StatusOK)
			a.harmless()
			if !strings.HasPrefix(path, "/counters") {
				if got, want := a.one("id", "main"), "1"; !strings.Contains(got, want) {
					t.Errorf("%s does not show its numbers: %q", path, got)
				}
			}
		}
		chart := h.get(h.pages.link("charts", "queue") + "/" + segment(name) + ".json").want(http.StatusOK)
		if got := chart.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("the chart of %q is %q", name, got)
		}
	}
}

func TestHostileNamesAreActedOn(t *testing.T) {
	t.Parallel()
	h := build(t)
	k := h.park("parked", hostile...)
	for i, name := range hostile {
		q := h.queue(name, fairqueue.Config{})
		ids := h.writeDead(q, name, fairqueue.Draft{Tenant: name})

		h.follow(h.post(h.pages.link("queues", name, "redrive"), url.Values{"pick": {token(ids[0])}}))
		if got := h.stats(q); got.Waiting != 1 || got.Dead != 0 {
			t.Errorf("%q after redrive: %+v", name, got)
		}
		h.follow(h.post("/icks/parked/drop", url.Values{"pick": {token(name)}, "confirm": {"parked"}}))
		if s, err := k.Stats(t.Context()); err != nil || s.Parked != len(hostile)-i-1 {
			t.Errorf("%q after drop: %d parked, %v", name, s.Parked, err)
		}
		h.follow(h.post(h.pages.link("queues", name, "delete"), url.Values{"confirm": {plain(name)}})).harmless()
		if n, err := q.Len(t.Context()); err != nil || n != 0 {
			t.Errorf("%q after delete: %d, %v", name, n, err)
		}
	}
}

func TestSegmentsComeBack(t *testing.T) {
	t.Parallel()
	for _, name := range append(hostile, "orders", "a.b:c-d_e@f", "a~b") {
		part := segment(name)
		if strings.ContainsAny(part, `/\?#`) || strings.Trim(part, ".") == "" {
			t.Errorf("segment(%q) = %q", name, part)
		}
		decoded, err := url.PathUnescape(part)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := untoken(decoded); !ok || got != name {
			t.Errorf("untoken(%q) = %q, %v, want %q", decoded, got, ok, name)
		}
	}
	if got, want := segment("orders:eu"), "orders:eu"; got != want {
		t.Errorf("segment = %q, want %q", got, want)
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "", "plain": "plain", "a\x00b": `a\x00b`, "\u202eabc": `\u202eabc`, "\xffa": `\xffa`, "é": "é", "a\tb": `a\x09b`, "\ufffd": "\ufffd",
	} {
		if got := plain(name); got != want {
			t.Errorf("plain(%q) = %q, want %q", name, got, want)
		}
	}
	long := shown(strings.Repeat("x", 500))
	if n := len(long); n != 3 || !long[1].Odd {
		t.Errorf("a long name is shown as %v", long)
	}
	if got := lines("a\r\n\tb\x00"); len(got) != 2 || got[0].Text != "a\n\tb" || got[1].Text != `\x00` {
		t.Errorf("lines = %v", got)
	}
}
