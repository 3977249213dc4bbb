package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/internal/test/redistest"
)

// viewOf is a View of one queue in which so many wait.
func viewOf(waiting int) *survey.View {
	now := time.Now()
	return &survey.View{At: now, Named: now, Queues: []fairqueue.Stats{{
		Name: "orders", At: now, Waiting: waiting, Streams: 8, PerTenant: 2,
		FlowCount: 1, Flows: []queuestats.Flow{{Stream: 3, Waiting: waiting}},
	}}}
}

// event is an event of a stream.
type event struct{ name, data string }

// viewer is a reader with an open page.
type viewer struct {
	t      *testing.T
	cancel context.CancelFunc
	events chan event // closed at the end of the stream
}

// watch opens the stream of a page.
func (h *house) watch(path string) *viewer {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/live"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	response, err := h.http.Do(r) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		h.t.Fatal(err)
	}
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		h.t.Fatalf("the stream of %s answers %d with %q", path, response.StatusCode, got)
	}
	v := &viewer{h.t, cancel, make(chan event, 1000)}
	go func() {
		defer close(v.events)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		var e event
		var data []string
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ":")
			switch {
			case lines.Text() == "" && e.name != "":
				e.data = strings.Join(data, "\n")
				v.events <- e
				e, data = event{}, nil
			case name == "event":
				e.name = strings.TrimPrefix(value, " ")
			case name == "data":
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
	}()
	h.t.Cleanup(cancel)
	return v
}

// next returns the next event of a name.
func (v *viewer) next(name string) string {
	v.t.Helper()
	pageTimeout := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-v.events:
			if !open {
				v.t.Fatalf("the stream ended before %q", name)
			}
			if e.name == name {
				return e.data
			}
		case <-pageTimeout:
			v.t.Fatalf("no event %q", name)
		}
	}
}

// ended waits for the end of the stream.
func (v *viewer) ended() {
	v.t.Helper()
	pageTimeout := time.After(20 * time.Second)
	for {
		select {
		case _, open := <-v.events:
			if !open {
				return
			}
		case <-pageTimeout:
			v.t.Fatal("the stream goes on")
		}
	}
}

func TestStreamSendsWhatChanges(t *testing.T) {
	t.Parallel()
	s := newStage(viewOf(3))
	s.series["queue orders"] = survey.Series{Times: []int64{10, 15}, Columns: []survey.Column{{Name: "written", Values: []float64{1, 2}}}}
	h := on(t, s)
	v := h.watch("/queues/orders")
	if got := v.next("figures"); !strings.Contains(got, `data-figure="waiting">3<`) {
		t.Errorf("the figures are %s", got)
	}
	var points map[string]point
	if err := json.Unmarshal([]byte(v.next("points")), &points); err != nil { // the last event of a View
		t.Fatal(err)
	}
	if got := points["chart-queue"]; got.At != 15 || got.Values[0] != 2 {
		t.Errorf("the newest point is %+v", got)
	}

	s.show(viewOf(4))
	seen := map[string]bool{}
	for len(seen) == 0 || !seen["flows"] {
		e := <-v.events
		seen[e.name] = true
	}
	if !seen["figures"] || seen["counters"] || seen["state"] || seen["points"] {
		t.Errorf("after a message more the stream sends %v", seen)
	}
}

// A stream first sends the content that the page already has, so nothing on it moves.
func TestStreamBeginsWithThePage(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(viewOf(3)))
	page := h.get("/queues/orders").text
	v := h.watch("/queues/orders")
	for _, region := range h.pages.templates["queue"].regions {
		if region == "points" {
			continue
		}
		if got := v.next(region); !strings.Contains(page, `sse-swap="`+region+`" hx-swap="patch">`+got+"<") {
			t.Errorf("the page does not have the region %s as it is sent: %q", region, got)
		}
	}
}

func TestStreamSaysThatStructuresVanish(t *testing.T) {
	t.Parallel()
	s := newStage(viewOf(3))
	h := on(t, s)
	v := h.watch("/queues/orders")
	v.next("figures")
	away := viewOf(0)
	away.Queues, away.Troubles = nil, []survey.Trouble{{Kind: survey.Queue, Name: "orders", Err: errors.New("i/o timeout")}}
	s.show(away)
	if got := v.next("figures"); !strings.Contains(got, "not surveyed") || !strings.Contains(got, ">3<") {
		t.Errorf("a queue that cannot be read has %s", got)
	}
	gone := viewOf(0)
	gone.Queues = nil
	s.show(gone)
	if got := v.next("figures"); !strings.Contains(got, "It was deleted") {
		t.Errorf("a queue that was deleted has %s", got)
	}
}

func TestStreamSaysThatNumbersAreOld(t *testing.T) {
	t.Parallel()
	s := newStage(viewOf(3))
	h := on(t, s)
	v := h.watch("/")
	if got := v.next("banner"); strings.Contains(got, "data-stale") {
		t.Errorf("fresh numbers are %s", got)
	}
	late := viewOf(3)
	late.At = time.Now().Add(-time.Minute)
	s.show(late)
	if got := v.next("banner"); !strings.Contains(got, "old.") || !strings.Contains(got, `data-stale="late"`) {
		t.Errorf("a View of a minute ago is %s", got)
	}
	away := viewOf(3)
	away.Troubles = []survey.Trouble{{Kind: survey.Server, Err: errors.New("connection refused")}}
	s.show(away)
	if got := v.next("banner"); !strings.Contains(got, "Redis does not answer (connection refused).") {
		t.Errorf("a View without Redis is %s", got)
	}
}

func TestStreamsEndWithDrain(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(viewOf(1)))
	open := h.watch("/")
	open.next("pulse")
	h.pages.Drain()
	h.pages.Drain()
	open.ended()
	h.watch("/").ended()
	h.get("/").want(http.StatusOK)
}

func TestStreamsHaveAnEnd(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(viewOf(1)))
	first := h.watch("/")
	for range maxStreams - 1 {
		h.watch("/queues").next("pulse")
	}
	crowded := h.get("/live/queues").want(http.StatusServiceUnavailable)
	crowded.says("Too many pages are open")
	if crowded.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	first.cancel()
	redistest.Eventually(t, "there is room again", func() bool {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, h.url+"/live/queues", nil)
		response, err := h.http.Do(r)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// A stream outlives the deadlines that a server has for whole requests.
func TestStreamsOutliveDeadlines(t *testing.T) {
	t.Parallel()
	s := newStage(viewOf(1))
	h := on(t, s)
	server := httptest.NewUnstartedServer(h.pages)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(h.pages.Drain)
	h.url = server.URL
	v := h.watch("/queues/orders")
	began := time.Now()
	for i := 0; time.Since(began) < time.Second; i++ {
		v.next("pulse")
		later := viewOf(i)
		later.At = later.At.Add(time.Duration(i) * time.Second) // which the page shows
		s.show(later)
	}
}

// A client that reads nothing does not hold a place for ever.
func TestStreamLetsGoOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	h := on(t, newStage(viewOf(1)))
	v := h.watch("/")
	v.next("pulse")
	v.cancel()
	redistest.Eventually(t, "the place is free", func() bool { return len(h.pages.streams) == 0 })
	v.ended()
}

func TestChartsHaveTheirNumbers(t *testing.T) {
	t.Parallel()
	v := viewOf(1)
	v.Queues = append(v.Queues, fairqueue.Stats{Name: "mails"})
	s := newStage(v)
	s.series["queue mails"] = survey.Series{Times: []int64{15, 20}, Columns: []survey.Column{{Name: "written", Values: []float64{10, 20}}}}
	s.series["queue orders"] = survey.Series{Times: []int64{10, 15}, Columns: []survey.Column{{Name: "written", Values: []float64{1, 2}}}}
	h := on(t, s)
	for path, want := range map[string]string{
		"/charts/queue/orders.json": `{"at":[10,15],"lines":[{"name":"written","values":[1,2]},{"name":"delivered","values":[0,0]},{"name":"acked","values":[0,0]}]}`,
		"/charts/queue/none.json":   `{"at":[],"lines":[{"name":"written","values":[]},{"name":"delivered","values":[]},{"name":"acked","values":[]}]}`,
		"/charts/throughput/~.json": `{"at":[10,15,20],"lines":[{"name":"messages written","values":[1,12,20]},{"name":"messages acked","values":[0,0,0]},{"name":"marks made","values":[0,0,0]},{"name":"marks committed","values":[0,0,0]}]}`,
	} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, nil)
		response, err := h.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(got) != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	h.get("/").want(http.StatusOK).says("messages written 20/s max 20/s")
}
