package fairqueue

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/shuffleshard"
)

// TestRoundRobin: one message a flow a turn, first in first out within a flow, and the
// next read goes on where the last one ended.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"tenants": {}, "streams": {Streams: 4, PerTenant: 1}} {
		for _, batch := range []int{1, 3, 100} {
			t.Run(fmt.Sprint(name, batch), func(t *testing.T) {
				t.Parallel()
				q := open(t, cfg)
				tenants := [4]string{} // one for each stream
				for i, found := 0, 0; found < 4; i++ {
					name := fmt.Sprint("tenant", i)
					index := shuffleshard.Get(4, 1, name)[0]
					if tenants[index] == "" {
						tenants[index], found = name, found+1
					}
				}
				for j := range 10 {
					for i := range 4 {
						write(t, q, fmt.Sprintf("%s:%d-%d", tenants[i], i, j))
					}
				}
				var got []string
				for some := read(t, q, batch); len(some) > 0; some = read(t, q, batch) {
					got = append(got, strings.Fields(bodies(some))...)
				}
				want(t, "deliveries", len(got), 40, nil)
				for turn := 0; turn < 40; turn += 4 {
					seen := map[string]bool{}
					for _, body := range got[turn : turn+4] {
						seen[body] = true
					}
					for i := range 4 {
						if !seen[fmt.Sprintf("%d-%d", i, turn/4)] {
							t.Fatalf("round %d is %v", turn/4, got[turn:turn+4])
						}
					}
				}
			})
		}
	}
}

// TestQuietTenantsBehindFloods is the position of 200 tenants with one message each behind
// ten floods: every one of them is served within a round.
func TestQuietTenantsBehindFloods(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 100} {
		t.Run(fmt.Sprint("max ", batch), func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			const floods, quiet = 10, 200
			for i := range floods {
				drafts := make([]Draft, 200)
				for j := range drafts {
					drafts[j] = Draft{Tenant: fmt.Sprint("flood", i), Body: []byte("noise")}
				}
				if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
					t.Fatal(err)
				}
			}
			read(t, q, 35) // they are at it
			for i := range quiet {
				write(t, q, fmt.Sprintf("quiet%d:quiet", i))
			}
			worst, position := 0, 0
			for position < quiet+4*floods {
				for _, m := range read(t, q, batch) {
					if position++; string(m.Body) == "quiet" {
						worst = position
					}
				}
			}
			if most := quiet + 2*floods; worst > most {
				t.Errorf("the last quiet tenant is at position %d, want at most %d", worst, most)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, strings.Repeat("a:x ", 60)+strings.Repeat("b:x ", 60)+strings.Repeat("c:x ", 60))
	share := func(n int) map[string]int {
		counts := map[string]int{}
		for _, m := range read(t, q, n) {
			counts[m.Tenant]++
		}
		return counts
	}
	want(t, "weight", nil, nil, setWeight(q, t.Context(), "a", 3))
	want(t, "weight", nil, nil, setWeight(q, t.Context(), "b", 0.5))
	share(9) // from the next head on
	got := share(45)
	for tenant, about := range map[string]int{"a": 30, "b": 5, "c": 10} {
		if n := got[tenant]; n < about-1 || n > about+1 {
			t.Errorf("%d of 45 deliveries are %s's, want about %d", n, tenant, about)
		}
	}
	want(t, "weight", nil, nil, setWeight(q, t.Context(), "a", 1))
	want(t, "weight", nil, nil, setWeight(q, t.Context(), "b", 1))
	share(6)
	got = share(15)
	for tenant, n := range got {
		if n < 4 || n > 6 {
			t.Errorf("%d of 15 deliveries are %s's, want 5: all weigh the same again", n, tenant)
		}
	}
}

// TestStreamsTakeTheEmptiest: a write goes to the tenant's stream with the fewest waiting messages; those in flight do not count.
func TestStreamsTakeTheEmptiest(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 8, PerTenant: 4})
	waiting := func() (counts []int) {
		for _, f := range stats(t, q).Flows {
			counts = append(counts, f.Waiting)
		}
		return counts
	}
	write(t, q, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8")
	want(t, "waiting", waiting(), []int{2, 2, 2, 2}, nil)
	m := read(t, q, 1)[0]
	write(t, q, "a:9")
	want(t, "waiting", waiting(), []int{2, 2, 2, 2}, nil)
	for range 8 {
		last := read(t, q, 1)[0]
		if !strings.Contains(fmt.Sprint(shuffleshard.Get(8, 4, "a")), fmt.Sprint(last.Stream)) || last.Tenant != "a" {
			t.Errorf("message of %s in stream %d, of %v", last.Tenant, last.Stream, shuffleshard.Get(8, 4, "a"))
		}
		ack(t, q, last)
	}
	ack(t, q, m)
}

// TestResize: messages land in the current streams of their tenant, whatever layout
// the writer has cached, and messages in other streams have their turns.
func TestResize(t *testing.T) {
	t.Parallel()
	client, name := redistest.Shared(t).Client(t), redistest.Name(t)
	q := openOn(t, client, name, Config{Streams: 8, PerTenant: 2})
	stale := openOn(t, redistest.Shared(t).Client(t), name, Config{Streams: 5, PerTenant: 1})
	ack(t, q, read(t, q, len(write(t, q, "a:first")))...)
	n := 0
	for _, size := range [][2]int{{8, 2}, {2, 1}, {0, 0}, {16, 4}, {3, 3}} {
		if n > 0 {
			want(t, "resize", nil, nil, q.Resize(t.Context(), size[0], size[1]))
		}
		s := streams{size[0], size[1]}
		for i := range 20 {
			n++
			tenant := fmt.Sprint("tenant", i)
			id := write(t, stale, fmt.Sprintf("%s:%d", tenant, n))[0]
			for _, m := range browseAll(t, q, BrowseConfig{}) {
				if m.ID == id && m.Stream >= 0 && !strings.Contains(s.flows(tenant), streamFlow(m.Stream)) || m.ID == id && (m.Stream < 0) != (s.count == 0) {
					t.Errorf("a message of %s is in stream %d, of %s", tenant, m.Stream, s.flows(tenant))
				}
			}
		}
		got := stats(t, q)
		want(t, "shape", [2]int{got.Streams, got.PerTenant}, size, nil)
	}
	seen := map[string]bool{}
	for _, m := range read(t, q, 1000) {
		seen[string(m.Body)] = true
		ack(t, q, m)
	}
	want(t, "messages", len(seen), n, nil)
	wantNothingLeft(t, q)
}

// TestFairness is the bound that the queue is made for, on random arrivals, however large
// the reads are and whatever comes back, overtakes others or is cancelled: see pair.
func TestFairness(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rapid.Check(t, func(r *rapid.T) {
		ctx := t.Context()
		q := openOn(t, client, redistest.Name(t), Config{MaxAttempts: 1000})
		tenants := make([]string, rapid.IntRange(2, 6).Draw(r, "tenants"))
		weights := map[string]float64{}
		var written []Draft
		for i := range tenants {
			tenants[i] = fmt.Sprint("tenant", i)
			weights[tenants[i]] = 1
			written = append(written, Draft{Tenant: tenants[i]})
		}
		must := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		_, err := q.WriteBatch(ctx, written...)
		must(err)
		if rapid.Bool().Draw(r, "weighted") {
			for _, tenant := range tenants {
				weights[tenant] = rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(r, "weight")
				must(setWeight(q, ctx, tenant, weights[tenant]))
			}
			for range tenants { // weights count from the next head on
				_, err := q.Read(ctx, ReadConfig{Max: len(tenants)})
				if err != nil {
					break
				}
			}
		}
		costs := []int{1}
		if rapid.Bool().Draw(r, "costs") {
			costs = []int{1, 3, 10}
		}
		waiting, ids := map[string]int{}, map[string]string{} // ids of messages that wait -> tenants
		pairs := map[[2]string]*pair{}
		var held []Message
		wrote := func(tenant string, n int) {
			for _, other := range tenants {
				if waiting[tenant] == 0 && other != tenant && waiting[other] > 0 {
					names := [2]string{min(tenant, other), max(tenant, other)}
					pairs[names] = &pair{names: names, weights: [2]float64{weights[names[0]], weights[names[1]]}, largest: slices.Max(costs)}
				}
			}
			waiting[tenant] += n
		}
		left := func(id, tenant string, cost int) { // 0 if it was not delivered
			waiting[tenant]--
			delete(ids, id)
			for names, p := range pairs {
				if i := slices.Index(names[:], tenant); i >= 0 {
					if cost > 0 {
						p.deliver(r, i, cost)
					}
					if waiting[tenant] == 0 {
						delete(pairs, names)
					}
				}
			}
		}
		mustRead(r, q, 1000) // the rest of the beginning
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) {
				tenant := rapid.SampledFrom(tenants).Draw(r, "tenant")
				drafts := make([]Draft, rapid.IntRange(1, 30).Draw(r, "messages"))
				for i := range drafts {
					drafts[i] = Draft{Tenant: tenant, Cost: rapid.SampledFrom(costs).Draw(r, "cost"), Priority: rapid.SampledFrom([]int{0, 0, 0, 0, 4}).Draw(r, "priority")}
				}
				written, err := q.WriteBatch(ctx, drafts...)
				must(err)
				for _, one := range written {
					ids[one.ID] = tenant
				}
				wrote(tenant, len(drafts))
			},
			"read": func(r *rapid.T) {
				for _, m := range mustRead(r, q, rapid.SampledFrom([]int{1, 2, 3, 7, 20}).Draw(r, "max")) {
					left(m.ID, m.Tenant, m.Cost)
					held = append(held, m)
				}
			},
			"cancel": func(r *rapid.T) {
				if len(ids) == 0 {
					r.Skip("nothing waits")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(r, "id")
				states, err := q.Cancel(ctx, id)
				must(err)
				if states[0] != Waiting {
					r.Fatalf("message %s was %s, want waiting", id, states[0])
				}
				left(id, ids[id], 0)
			},
			"nack": func(r *rapid.T) {
				if len(held) == 0 {
					r.Skip("nothing is held")
				}
				m := held[0]
				held = held[1:]
				_, err := q.Nack(ctx, NackConfig{}, m.Receipt)
				must(err)
				ids[m.ID] = m.Tenant
				wrote(m.Tenant, 1)
			},
		})
		_, err = q.Delete(ctx)
		must(err)
	})
}

// pair are two tenants, while messages of both wait.
type pair struct {
	names   [2]string
	weights [2]float64
	largest int    // the highest cost that messages may have
	counts  [2]int // cost of the deliveries since then
	last    int    // whose the last one was
}

// deliver checks that a delivery is in turn: none is ahead of the other by more than one
// turn of each, and two of the same weight alternate as soon as both have had one, if all messages cost the same.
func (p *pair) deliver(r *rapid.T, i, cost int) {
	p.counts[i] += cost
	a, b := p.weights[0], p.weights[1]
	if ahead := float64(p.counts[0])/a - float64(p.counts[1])/b; math.Abs(ahead) > float64(p.largest)*(1/a+1/b) {
		r.Fatalf("%v, of weights %v, had deliveries of cost %v while both waited", p.names, p.weights, p.counts)
	}
	if p.largest == 1 && a == b && p.counts[1-i] > 0 && p.counts[i] > 1 && p.last == i {
		r.Fatalf("%v had two turns while %v waited: %v deliveries", p.names[i], p.names[1-i], p.counts)
	}
	p.last = i
}

func mustRead(r *rapid.T, q *Queue, most int) []Message {
	messages, err := q.Read(r.Context(), ReadConfig{Max: most, Visibility: time.Hour})
	if err != nil && !errors.Is(err, ErrEmpty) {
		r.Fatal(err)
	}
	return messages
}
