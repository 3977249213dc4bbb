package dashboard

import (
	"context"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/net/html"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/access"
)

// house is a dashboard with a browser in front and a server of its own behind.
type house struct {
	t      *testing.T
	client rueidis.Client
	survey *survey.Survey
	pages  *Dashboard
	url    string // with the prefix
	http   *http.Client
	who    atomic.Pointer[access.Client] // that sends all requests, nil for none
}

// as has a client send all further requests.
func (h *house) as(c access.Client) { h.who.Store(&c) }

// build returns a house in which people may act; changes may say otherwise.
func build(t *testing.T, changes ...func(*Config)) *house {
	t.Helper()
	h := &house{t: t, client: redistest.Start(t, redistest.Options{}).Client(t)}
	var err error
	if h.survey, err = survey.New(survey.Config{Client: h.client}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Client: h.client, Survey: h.survey, Actions: true}
	for _, change := range changes {
		change(&cfg)
	}
	h.serve(cfg)
	return h
}

func (h *house) serve(cfg Config) {
	h.t.Helper()
	var err error
	if h.pages, err = New(cfg); err != nil {
		h.t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix(cfg.Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := h.who.Load(); who != nil {
			r = r.WithContext(access.With(r.Context(), *who))
		}
		h.pages.ServeHTTP(w, r)
	})))
	h.t.Cleanup(func() {
		h.pages.Drain()
		server.Close()
	})
	h.url = server.URL + cfg.Prefix
	h.http = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	h.t.Cleanup(h.http.CloseIdleConnections)
}

// look has the survey look, names and all.
func (h *house) look() *survey.View {
	h.t.Helper()
	v, err := h.survey.Refresh(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// answer is an answer of a page.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	text   string
	root   *html.Node
}

func (h *house) get(path string) answer { h.t.Helper(); return h.do(http.MethodGet, path, nil, nil) }

// post sends a form as a browser sends one of our own pages'.
func (h *house) post(path string, form url.Values) answer {
	h.t.Helper()
	return h.do(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

func (h *house) do(method, path string, form url.Values, header http.Header) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	maps.Copy(r.Header, header)
	response, err := h.http.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		h.t.Fatal(err)
	}
	return answer{h.t, response.StatusCode, response.Header, string(body), root}
}

// want fails unless the answer has a status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if got := a.status; got != status {
		a.t.Fatalf("status = %d, want %d:\n%s", got, status, a.text)
	}
	return a
}

// follow opens the page to which the answer to an action redirects, with its cookies.
func (h *house) follow(a answer) answer {
	h.t.Helper()
	a.want(http.StatusSeeOther)
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		h.t.Fatal(err)
	}
	header := http.Header{}
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		header.Add("Cookie", c.Name+"="+c.Value)
	}
	base, _ := url.Parse(h.url)
	return h.do(http.MethodGet, strings.TrimPrefix(to.RequestURI(), base.Path), nil, header).want(http.StatusOK)
}

// nodes are the elements for which is holds.
func nodes(root *html.Node, is func(n *html.Node) bool) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && is(n) && !yield(n) {
				return
			}
		}
	}
}

// attribute returns an attribute's value.
func attribute(n *html.Node, name string) (string, bool) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return n.Attr[i].Val, true
}

func having(name, value string) func(n *html.Node) bool {
	return func(n *html.Node) bool {
		got, ok := attribute(n, name)
		return ok && (got == value || value == "*")
	}
}

// all returns the texts of the elements with an attribute of that value; any for *.
func (a answer) all(name, value string) []string {
	var texts []string
	for n := range nodes(a.root, having(name, value)) {
		texts = append(texts, text(n))
	}
	return texts
}

// one returns the text of the only element with an attribute of that value.
func (a answer) one(name, value string) string {
	a.t.Helper()
	texts := a.all(name, value)
	if len(texts) != 1 {
		a.t.Fatalf("%d elements have %s=%q, want 1:\n%s", len(texts), name, value, a.text)
	}
	return texts[0]
}

// figures fails unless the page shows these figures.
func (a answer) figures(want map[string]string) {
	a.t.Helper()
	for name, value := range want {
		if got := a.one("data-figure", name); got != value {
			a.t.Errorf("figure %s = %q, want %q", name, got, value)
		}
	}
}

// text is the text of an element as it is read, with single spaces.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (a answer) says(want string) {
	a.t.Helper()
	if !strings.Contains(text(a.root), want) {
		a.t.Errorf("the page does not say %q:\n%s", want, text(a.root))
	}
}

// queue returns a queue of the house.
func (h *house) queue(name string, cfg fairqueue.Config) *fairqueue.Queue {
	h.t.Helper()
	q, err := fairqueue.New(h.client, name, cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	return q
}

func (h *house) write(q *fairqueue.Queue, drafts ...fairqueue.Draft) []string {
	h.t.Helper()
	written, err := q.WriteBatch(h.t.Context(), drafts...)
	if err != nil {
		h.t.Fatal(err)
	}
	ids := make([]string, len(written))
	for i, w := range written {
		ids[i] = w.ID
	}
	return ids
}

// writeDead writes messages, moves them to dead, and returns their ids.
func (h *house) writeDead(q *fairqueue.Queue, reason string, drafts ...fairqueue.Draft) []string {
	h.t.Helper()
	ids := h.write(q, drafts...)
	for range ids {
		messages, err := q.Read(h.t.Context(), fairqueue.ReadConfig{})
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := q.Nack(h.t.Context(), fairqueue.NackConfig{Dead: true, Reason: reason}, messages[0].Receipt); err != nil {
			h.t.Fatal(err)
		}
	}
	return ids
}

func (h *house) stats(q *fairqueue.Queue) fairqueue.Stats {
	h.t.Helper()
	s, err := q.Stats(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// park returns an Ick of which these members failed.
func (h *house) park(name string, members ...string) *ick.Ick {
	h.t.Helper()
	k, err := ick.New(h.client, name, ick.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := k.AddNow(h.t.Context(), members...); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- k.Consume(ctx, ick.ConsumeConfig{RetryDelay: time.Hour}, func(_ context.Context, batch []ick.Entry) error {
			failed := make([]string, len(batch))
			for i, e := range batch {
				failed[i] = e.Member
			}
			return ick.Failed(nil, failed...)
		})
	}()
	redistest.Eventually(h.t, "all are parked", func() bool {
		s, err := k.Stats(h.t.Context())
		return err == nil && s.Parked == len(members)
	})
	cancel()
	<-done
	return k
}

// stage is a Survey whose views a test shows.
type stage struct {
	mu     sync.Mutex
	view   *survey.View
	next   chan struct{}
	series map[string]survey.Series
}

func newStage(v *survey.View) *stage {
	return &stage{view: v, next: make(chan struct{}), series: map[string]survey.Series{}}
}

func (s *stage) show(v *survey.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = v
	close(s.next)
	s.next = make(chan struct{})
}

func (s *stage) View() *survey.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

func (s *stage) Watch(ctx context.Context) iter.Seq[*survey.View] {
	return func(yield func(*survey.View) bool) {
		for {
			s.mu.Lock()
			v, next := s.view, s.next
			s.mu.Unlock()
			if !yield(v) {
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *stage) Refresh(context.Context) (*survey.View, error) { return s.View(), nil }

func (s *stage) Series(kind survey.Kind, name string) survey.Series {
	return s.series[string(kind)+" "+name]
}

// on builds a house on a stage.
func on(t *testing.T, s *stage, changes ...func(*Config)) *house {
	t.Helper()
	return build(t, append([]func(*Config){func(c *Config) { c.Survey = s }}, changes...)...)
}
