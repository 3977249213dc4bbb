package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// slowScene is a consumer whose handlers hang at messages of slow tenants until it ends.
type slowScene struct {
	q *Queue

	mu      sync.Mutex
	slow    int // handlers that are at slow messages
	quick   map[string]bool
	release chan bool
}

const slowWorkers = 10

// slowTenants runs ten workers on 30 messages each of so many slow tenants.
func slowTenants(t *testing.T, scripts *script.Library, n int) *slowScene {
	t.Helper()
	client := redistest.Shared(t).Client(t)
	q := openOn(t, client, redistest.Name(t), Config{})
	q.run.Scripts = scripts
	s := &slowScene{q: q, quick: map[string]bool{}, release: make(chan bool)}
	write(t, q, "quiet0:first") // another tenant had a message within the minute
	for i := range n {
		write(t, q, strings.Repeat(fmt.Sprintf("slow%d:slow ", i), 30))
	}
	stop := consume(t, q, ConsumeConfig{Concurrency: slowWorkers, Visibility: time.Minute}, func(_ context.Context, m Message) error {
		if string(m.Body) == "slow" {
			s.mu.Lock()
			s.slow++
			s.mu.Unlock()
			<-s.release
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.quick[string(m.Body)] = true
		return nil
	})
	t.Cleanup(func() {
		close(s.release)
		if err := q.Pause(context.Background()); err != nil {
			t.Error(err)
		}
		stop()
	})
	return s
}

func (s *slowScene) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow
}

func (s *slowScene) served(body string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quick[body]
}

// TestSlowTenants: however long their handlers take, quiet tenants are served while not one
// of those handlers returns.
func TestSlowTenants(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := slowTenants(t, library, n)
			least := map[int]int{1: 5, 2: 6, 5: 5}[n] // n of n+1 parts, or one each
			redistest.Eventually(t, "slow tenants have their share", func() bool { return s.busy() >= least })
			for round := range 5 {
				for i := range 20 {
					write(t, s.q, fmt.Sprintf("quiet%d:%d-%d", i, round, i))
				}
			}
			redistest.Eventually(t, "all quiet ones are served", func() bool {
				for round := range 5 {
					for i := range 20 {
						if !s.served(fmt.Sprintf("%d-%d", round, i)) {
							return false
						}
					}
				}
				return true
			})
			if busy := s.busy(); busy >= slowWorkers {
				t.Errorf("slow tenants have %d of %d workers", busy, slowWorkers)
			}
			held := 0
			for _, f := range stats(t, s.q).Flows {
				if f.Held {
					held++
				}
			}
			want(t, "flows that are held", held, n, nil)
		})
	}
}

// withoutTheSlowRule returns scripts that let every handler start.
func withoutTheSlowRule(t *testing.T) *script.Library {
	t.Helper()
	scripts := scripttest.Without(t, library, "state.n == 0 or state.n < n.capacity - n.busy or", "true or")
	scripts = scripttest.Without(t, scripts, "state[1] > 0 and state[1] >= capacity - busy and", "false and")
	return scripttest.Without(t, scripts, "if rest and not is_stream and consumes and", "if false and")
}

// TestSlowTenantsWithoutTheRule have all workers, so the rule makes the difference.
func TestSlowTenantsWithoutTheRule(t *testing.T) {
	t.Parallel()
	s := slowTenants(t, withoutTheSlowRule(t), 1)
	redistest.Eventually(t, "the slow tenant has all workers", func() bool { return s.busy() == slowWorkers })
}

// TestOneTenantAlone has all workers when the others were quiet for a minute, which is half
// a second here.
func TestOneTenantAlone(t *testing.T) {
	t.Parallel()
	s := slowTenants(t, scripttest.Without(t, library, "> 60000", "> 500"), 1)
	redistest.Eventually(t, "the slow tenant has all workers", func() bool {
		write(t, s.q, "slow0:slow") // each message makes the readers look
		return s.busy() == slowWorkers
	})
}

// TestTenantOfStreamsAloneAgain: a slow tenant whose messages have costs has all workers again when the others were quiet.
func TestTenantOfStreamsAloneAgain(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 4, PerTenant: 2})
	q.run.Scripts = scripttest.Without(t, library, "> 60000", "> 500")
	hold, busy, served := make(chan bool), atomic.Int64{}, atomic.Bool{}
	write(t, q, "quiet:first")
	writeAll(t, q, 30, Draft{Tenant: "slow", Body: []byte("slow"), Cost: 2})
	stop := consume(t, q, ConsumeConfig{Concurrency: slowWorkers, Visibility: time.Minute}, func(_ context.Context, m Message) error {
		switch string(m.Body) {
		case "slow":
			busy.Add(1)
			<-hold
		case "second":
			served.Store(true)
		}
		return nil
	})
	t.Cleanup(func() {
		want(t, "pause", nil, nil, q.Pause(context.Background()))
		close(hold)
		stop()
	})
	redistest.Eventually(t, "half of the workers are slow", func() bool { return busy.Load() >= slowWorkers/2 })
	write(t, q, "quiet:second") // now the last message is another tenant's
	all := func() bool { return busy.Load() == slowWorkers }
	redistest.Eventually(t, "the quiet tenant is served, unless half a second passed before", func() bool { return served.Load() || all() })
	redistest.Eventually(t, "the slow tenant has all workers", all)
}

// TestReadersAreNotLimited: messages that Read takes count for no tenant's share.
func TestReadersAreNotLimited(t *testing.T) {
	t.Parallel()
	s := slowTenants(t, library, 1)
	redistest.Eventually(t, "the slow tenant is held", func() bool { return s.busy() >= 5 && stats(t, s.q).Flows[0].Held })
	other := openOn(t, redistest.Shared(t).Client(t), s.q.name, Config{})
	other.run.Scripts = s.q.run.Scripts
	want(t, "messages read", len(read(t, other, 10)), 10, nil)
}

// TestHeldFlowsTakeNoMemory: a flow that is held and freed again and again is noted once.
func TestHeldFlowsTakeNoMemory(t *testing.T) {
	t.Parallel()
	s := slowTenants(t, library, 1)
	redistest.Eventually(t, "the slow tenant is held", func() bool { return s.busy() >= 5 && stats(t, s.q).Flows[0].Held })
	other := openOn(t, redistest.Shared(t).Client(t), s.q.name, Config{})
	size := func() int {
		text, err := do(t, other.run.Client, "HGET", baseKey(s.q.name)+":hot", "o"+tenantFlow("slow0")).ToString()
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	before, self := size(), readerOf(reader{id: "other"}) // it adds no handlers
	for range 30 {
		other.handBack(t.Context(), read(t, other, 1)) // frees the flow
		answers, err := other.shared.work(t.Context(), []workRequest{{q: other, reader: self, max: 1, visibility: time.Minute}}, false)
		want(t, "messages for one who consumes", len(answers[0].messages), 0, err)
	}
	if after := size(); after > 2*before+20 {
		t.Errorf("what is known of a tenant has %d bytes, %d at first", after, before)
	}
}

// TestTenantsOfStreamsAreToldApart: where flows are streams the rule counts by tenant, too, so
// ten tenants with a slow message each have all ten workers.
func TestTenantsOfStreamsAreToldApart(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 64})
	release := make(chan struct{})
	var busy atomic.Int64
	write(t, q, "a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1 j:1")
	stop := consume(t, q, ConsumeConfig{Concurrency: slowWorkers}, func(context.Context, Message) error {
		busy.Add(1)
		<-release
		return nil
	})
	t.Cleanup(func() {
		close(release)
		stop()
	})
	redistest.Eventually(t, "each tenant has a worker", func() bool { return busy.Load() == slowWorkers })
}
