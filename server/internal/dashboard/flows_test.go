package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
)

// crowd is a queue with a tenant that floods, one that has waited for long, and one
// whose handlers are slow.
func crowd() fairqueue.Stats {
	now := time.Now()
	s := fairqueue.Stats{
		Name: "orders", At: now, Waiting: 1000, FlowCount: 2000, Capacity: 20,
		Flows: []queuestats.Flow{
			{Tenant: "noisy", Stream: -1, Waiting: 900, InFlight: 2, OldestAge: time.Minute, Handling: 3 * time.Millisecond},
			{Tenant: "slow", Stream: -1, Waiting: 50, InFlight: 10, OldestAge: time.Minute, Handling: 5 * time.Second, Held: true},
			{Tenant: "late", Stream: -1, Waiting: 1, OldestAge: time.Hour, Handling: -1},
		},
		Readers: []queuestats.Reader{
			{Name: "worker-1", Host: "a", Concurrency: 10, InFlight: 10, LastSeen: now},
			{Name: "worker-2", Host: "b", Concurrency: 10, InFlight: 2, LastSeen: now.Add(-4 * time.Second)},
			{Name: "worker-3", Host: "c", Concurrency: 10, InFlight: 7, LastSeen: now.Add(-time.Minute)},
		},
	}
	for range 30 {
		s.Flows = append(s.Flows, queuestats.Flow{Tenant: "quiet", Stream: -1, Waiting: 1, OldestAge: time.Second, Handling: 0})
	}
	return s
}

func flowsOf(s fairqueue.Stats, by sorting) flowList {
	return newFlows(s, by, func(by sorting) string { return string(by) }, func(tenant string) string { return tenant })
}

func TestFlowsAreRanked(t *testing.T) {
	t.Parallel()
	for by, want := range map[sorting][]string{
		"":          {"noisy", "slow", "late"},
		"\xff":      {"noisy", "slow", "late"},
		byOldest:    {"late", "noisy", "slow"},
		byHandling:  {"slow", "noisy", "quiet"},
		"something": {"noisy", "slow", "late"},
	} {
		l := flowsOf(crowd(), by)
		var got []string
		for _, r := range l.Rows[:3] {
			got = append(got, r.Tenant)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %q (-want +got):\n%s", by, diff)
		}
		if len(l.Rows) != maxFlows || l.More != 33-maxFlows || l.Held != 1 || l.Count != 2000 || l.Looked != 33 {
			t.Errorf("by %q: %d rows, %d more, %d held, %d of %d known", by, len(l.Rows), l.More, l.Held, l.Looked, l.Count)
		}
		var first []string
		for _, r := range l.Ranks {
			if first = append(first, r.First.Tenant+": "+r.About); r.Current != (r.Path == string(l.Sort)) {
				t.Errorf("by %q: %q is current: %t", by, r.Name, r.Current)
			}
		}
		wantFirst := []string{"noisy: 900 messages, 90% of all that wait", "late: for 1h0m0s", "slow: held, 5s for a message"}
		if diff := cmp.Diff(wantFirst, first); diff != "" {
			t.Errorf("by %q (-want +got):\n%s", by, diff)
		}
	}
}

func TestBarsOfFlows(t *testing.T) {
	t.Parallel()
	l := flowsOf(crowd(), byWaiting)
	noisy, slow, late := l.Rows[0], l.Rows[1], l.Rows[2]
	got := []int{
		noisy.Waits.Width, noisy.Oldest.Width, noisy.Flying.Width, noisy.Takes.Width,
		slow.Waits.Width, slow.Flying.Width, slow.Takes.Width, late.Waits.Width, late.Oldest.Width,
	}
	if diff := cmp.Diff([]int{100, 2, 10, 1, 6, 50, 100, 1, 100}, got); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
	if !late.Takes.None || late.Flying.None || slow.Takes.Tone != "full" || l.Rows[3].Takes.Words != "< 1ms" {
		t.Errorf("rows are %+v", l.Rows[:4])
	}
}

func TestFlowsThatAreStreams(t *testing.T) {
	t.Parallel()
	s := fairqueue.Stats{
		Streams: 16, PerTenant: 2, Waiting: 3, FlowCount: 2,
		Flows: []queuestats.Flow{{Stream: 3, Waiting: 2, Handling: -1}, {Stream: 0, Waiting: 1, Handling: -1}},
	}
	l := flowsOf(s, byWaiting)
	if l.Rows[0].Key != "s3" || l.Rows[0].Path != "" || !l.Rows[0].Flying.None || l.All != "once in 120 pairs" {
		t.Errorf("flows are %+v", l)
	}
	if !l.Ranks[1].None || !l.Ranks[2].None || l.Ranks[1].About != "none" {
		t.Errorf("ranks are %+v", l.Ranks)
	}
	if l := flowsOf(fairqueue.Stats{}, byOldest); len(l.Rows) != 0 || !l.Ranks[0].None {
		t.Errorf("flows of nothing are %+v", l)
	}
}

// TestHeldWithoutATime: a held tenant is slow, even if no handler has returned.
func TestHeldWithoutATime(t *testing.T) {
	t.Parallel()
	s := crowd()
	s.Flows = append(s.Flows, queuestats.Flow{Tenant: "hung", Stream: -1, Waiting: 1, Handling: -1, Held: true})
	l := flowsOf(s, byHandling)
	if l.Rows[0].Tenant != "slow" || l.Rows[1].Tenant != "hung" || !l.Rows[1].Takes.None {
		t.Errorf("rows are %+v", l.Rows[:2])
	}
	s.Flows = s.Flows[len(s.Flows)-1:]
	if r := flowsOf(s, byWaiting).Ranks[2]; r.None || r.First.Tenant != "hung" || r.About != "held, none has finished recently" {
		t.Errorf("the slowest is %+v", r)
	}
}

func TestReadersAreListed(t *testing.T) {
	t.Parallel()
	l := newReaders(crowd())
	if l.Busy != 12 || l.All != 20 || l.Rows[0].Hands.Tone != "high" || l.Rows[1].Silent || !l.Rows[2].Silent {
		t.Errorf("readers are %+v", l)
	}
}

// TestFlowsOnThePage: the page has the flows, each with a way to its page, and the
// readers.
func TestFlowsOnThePage(t *testing.T) {
	t.Parallel()
	v := viewOf(3)
	v.Queues = []fairqueue.Stats{crowd()}
	h := on(t, newStage(v))
	page := h.get("/queues/orders?by=handling&place=dead&tenant=acme").want(http.StatusOK)
	page.figures(map[string]string{"flows": "2,000", "busy": "12", "capacity": "20"})
	flows := page.all("data-flow", "*")
	if len(flows) != maxFlows || !strings.HasPrefix(strings.TrimSpace(flows[0]), "slow held") {
		t.Errorf("%d flows, and the first is %q", len(flows), flows[0])
	}
	for _, words := range []string{"worker-3", "18 more flows not shown", "1 flow held", "Only the next 33 flows are ranked"} {
		page.says(words)
	}
	var links []string
	for n := range nodes(page.root, having("title", "its limits, and what can be done")) {
		link, _ := attribute(n, "href")
		links = append(links, link)
	}
	if len(links) == 0 || links[0] != "/queues/orders/tenants/slow" {
		t.Errorf("links lead to %q", links)
	}
	var current string
	for n := range nodes(page.root, having("aria-label", "Order of flows")) {
		for a := range nodes(n, having("aria-current", "true")) {
			current, _ = attribute(a, "href")
		}
	}
	if current != "/queues/orders?by=handling&place=dead&tenant=acme#flows" {
		t.Errorf("the order is %q", current)
	}
}

// TestButtonOfALimitedTenant: a tenant whose rate holds it back can be paused, and one that is throttled resumed.
func TestButtonOfALimitedTenant(t *testing.T) {
	t.Parallel()
	s := fairqueue.Stats{At: time.Now(), Capacity: 10}
	until := s.At.Add(time.Minute)
	for state, c := range map[string]struct {
		flow    queuestats.Flow
		stopped bool
	}{
		"rate":            {queuestats.Flow{NotBefore: until, ByRate: true}, false},
		"paused for 1m0s": {queuestats.Flow{NotBefore: until}, true},
		"paused":          {queuestats.Flow{NotBefore: until, Paused: true}, true},
		"most in flight":  {queuestats.Flow{Held: true, InFlight: 5, Limits: queuestats.Limits{MaxInFlight: 5}}, false},
		"":                {queuestats.Flow{Held: true, InFlight: 5}, false},
	} {
		c.flow.Stream = -1
		r := newFlowRow(c.flow, s, queuestats.Flow{}, "")
		if r.State != state || r.Stopped != c.stopped {
			t.Errorf("%+v: state %q, can be resumed %t, want %q, %t", c.flow, r.State, r.Stopped, state, c.stopped)
		}
	}
}
