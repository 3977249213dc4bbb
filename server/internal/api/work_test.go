package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

// rounds is about what workers ask for.
func rounds(s service, name string) {
	q := "/v1/queues/" + name
	work := func(body object) ops.Taken {
		s.t.Helper()
		return read[ops.Taken](s.ask("POST", q+"/work", body).want(200, ""))
	}
	if got := work(object{"worker": "w1", "concurrency": 8}); len(got.Messages) != 0 || len(got.Stale) != 0 {
		s.t.Errorf("of no queue: %+v", got)
	}
	write := func(tenant string, draft object) {
		s.t.Helper()
		draft["tenant"] = tenant
		s.ask("POST", q+"/messages", draft).want(201, "")
	}
	write("a", object{"json": object{"order": 17, "gone": nil, "list": []any{1, object{}}}})
	write("b", object{"body": "plain"})
	write("c", object{"body": "\"text\""})
	write("d", object{"json": nil})
	write("e", object{"json": false})
	s.ask("POST", q+"/messages", object{"tenant": "a", "body": "x", "json": 1}).refused(400, "bad_request")
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a", "body": "x", "json": 1}}}).refused(400, "bad_request")

	first := read[struct {
		Messages []struct {
			Receipt string
			Body    *string
			JSON    json.RawMessage
		}
	}](s.ask("POST", q+"/work", object{"worker": "w1", "concurrency": 8, "max": 5, "json": true}).want(200, ""))
	var bodies []string
	var receipts []string
	for _, m := range first.Messages {
		receipts = append(receipts, m.Receipt)
		if m.JSON != nil {
			bodies = append(bodies, "json "+string(m.JSON))
		} else {
			bodies = append(bodies, "body "+*m.Body)
		}
	}
	if want := []string{`json {"gone":null,"list":[1,{}],"order":17}`, "body plain", `json "text"`, "json null", "json false"}; !slices.Equal(bodies, want) {
		s.t.Fatalf("taken %q, want %q", bodies, want)
	}
	stats := read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, ""))
	if len(stats.Readers) != 1 || stats.Readers[0].Name != "w1" || stats.Capacity != 8 {
		s.t.Errorf("readers %+v, capacity %d, want the worker", stats.Readers, stats.Capacity)
	}

	stale := s.stale()
	next := work(object{
		"worker": "w1", "concurrency": 8, "ack": []string{receipts[0], stale}, "dead": []object{{"receipt": receipts[2], "reason": "no such article"}},
		"nack":     []object{{"receipt": receipts[1], "reason": "later"}, {"receipt": receipts[3], "delay": "0s"}},
		"throttle": []object{{"receipt": receipts[4], "delay": "1h", "reason": "429"}},
	})
	if !slices.Equal(next.Stale, []string{stale}) {
		s.t.Errorf("stale %q, want %q", next.Stale, stale)
	}
	if len(next.Messages) != 1 || next.Messages[0].Tenant != "d" || next.Messages[0].Attempt != 2 || string(*next.Messages[0].Body) != "null" {
		s.t.Errorf("taken %+v, want the message that was returned at once", next.Messages)
	}
	delayed := read[ops.BrowsedPage](s.ask("GET", q+"/browse?place=delayed", nil).want(200, "")).Messages
	if len(delayed) != 1 || delayed[0].Tenant != "b" || time.Until(*delayed[0].Until) > 2*time.Second {
		s.t.Errorf("delayed %+v, want the message that failed, for a second", delayed)
	}
	dead := read[ops.DeadMessages](s.ask("GET", q+"/dead", nil).want(200, "")).Dead
	if len(dead) != 1 || dead[0].Reason != "no such article" {
		s.t.Errorf("dead %+v, want the one that was given up", dead)
	}
	limits := read[ops.TenantLimits](s.ask("GET", q+"/limits?tenant=e", nil).want(200, ""))
	if !limits.Limits.Paused {
		s.t.Errorf("the limits of the tenant that is throttled are %+v, want a pause", limits)
	}

	write("f", object{"body": "waits"})
	if got := work(object{"worker": "w2", "max": 0, "block": "1m", "ack": []string{stale}}); len(got.Messages) != 0 || !slices.Equal(got.Stale, []string{stale}) {
		s.t.Errorf("a round that takes none: %+v, want a stale receipt, at once", got)
	}
	if stats = read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, "")); stats.Waiting != 1+1 {
		s.t.Errorf("after a round that takes none %d wait, want that of the throttled tenant and the new one", stats.Waiting)
	}

	held := next.Messages[0].Receipt
	for _, bad := range []object{
		{"ack": []string{held, held}},
		{"ack": []string{held}, "dead": []object{{"receipt": held}}},
		{"max": 1001},
		{"max": -1},
		{"leave": true},
		{"concurrency": 8, "worker": "w1", "throttle": []object{{"receipt": held}}},
	} {
		s.ask("POST", q+"/work", bad).refused(400, "bad_request")
	}
	for _, bad := range []object{
		{"ack": []string{"17"}},
		{"concurrency": 8},
		{"throttle": []object{{"receipt": held, "delay": "0s"}}},
	} {
		s.ask("POST", q+"/work", bad).refused(400, "bad_argument")
	}
	s.ask("POST", q+"/pause", nil).want(200, "")
	if got := work(object{"ack": []string{held}}); !got.Paused || len(got.Stale) != 0 {
		s.t.Errorf("of a paused queue: %+v, want that it is settled", got)
	}
}

// TestARepeatedRound: a repeat of a round whose answer was lost has the same messages, and settles once.
func TestARepeatedRound(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": "a"}, {"tenant": "a"}}}).want(201, "")
	first := s.take(q, nil)[0]
	body := object{"worker": "w", "ack": []string{first.Receipt}}
	one := read[ops.Taken](s.ask("POST", q+"/work", body, key("k")).want(200, ""))
	two := read[ops.Taken](s.ask("POST", q+"/work", body, key("k")).want(200, ""))
	if len(one.Messages) != 1 || len(two.Messages) != 1 || one.Messages[0].Receipt != two.Messages[0].Receipt || len(two.Stale) != 0 {
		t.Errorf("a repeat has %+v, want %+v", two, one)
	}
	stats := read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, ""))
	if stats.Counters.Acked != 1 || stats.Waiting != 1 || stats.InFlight != 1 {
		t.Errorf("%d acknowledged, %d wait, %d in flight, want one of each", stats.Counters.Acked, stats.Waiting, stats.InFlight)
	}
}

// TestAWorkerLeaves: rounds of a worker that leaves and wait return at once, with what they have settled.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 1000)
	s := serve(t, api.Config{Hooks: []millrace.Hook{onCall(func(call millrace.Call) { calls <- call.Script })}})
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}}}).want(201, "")
	first := s.take(q, object{"visibility": "1h"})[0]
	for len(calls) > 0 {
		<-calls
	}
	answers := make(chan answer)
	go func() {
		answers <- s.ask("POST", q+"/work", object{"worker": "w", "block": "1m", "ack": []string{first.Receipt}}, key("k"))
	}()
	go func() { answers <- s.ask("POST", q+"/work", object{"worker": "w", "block": "1m"}) }()
	go func() { answers <- s.ask("POST", q+"/work", object{"worker": "another", "block": "3s"}) }()
	redistest.Eventually(t, "the rounds wait", func() bool { return s.api.Rounds() == 3 && len(calls) >= 4 })
	began := time.Now()
	s.ask("POST", q+"/work", object{"worker": "w", "leave": true}).want(200, `{"messages":[],"stale":[]}`)
	for range 2 {
		(<-answers).want(200, `{"messages":[],"stale":[]}`)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("leaving took %s", took)
	}
	if got := <-answers; !strings.Contains(got.what, "another") || s.api.Rounds() != 0 {
		t.Errorf("last returned %s; %d are left", got.what, s.api.Rounds())
	}
	stats := read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, ""))
	if stats.Counters.Acked != 1 {
		t.Errorf("%d acknowledged, want what the round settled before it waited", stats.Counters.Acked)
	}
	if len(stats.Readers) != 1 || stats.Readers[0].Name != "another" || stats.Capacity != 10 || len(stats.Notices) != 0 {
		t.Errorf("readers %+v with %d handlers and notices %v, want the other worker only", stats.Readers, stats.Capacity, stats.Notices)
	}
	s.ask("POST", q+"/messages", object{"tenant": "a"}).want(201, "")
	if got := read[ops.Taken](s.ask("POST", q+"/work", object{"worker": "w"}).want(200, "")); len(got.Messages) != 1 {
		t.Errorf("a worker that comes back takes %+v", got)
	}
}

// TestASlowTenantOverHTTP: eight workers, and a tenant whose messages take two seconds: the messages of another
// one do not wait until one of those has ended. It has a message when the others come: a tenant that is
// alone gets all workers.
func TestASlowTenantOverHTTP(t *testing.T) {
	t.Parallel()
	const workers, slow, quiet = 8, 2 * time.Second, 40
	s := serve(t, api.Config{})
	q := "/v1/queues/" + redistest.Name(t)
	flood := []object{{"tenant": "quiet"}}
	for range 200 {
		flood = append(flood, object{"tenant": "slow"})
	}
	s.ask("POST", q+"/messages/batch", object{"messages": flood}).want(201, "")
	var all sync.WaitGroup
	var mu sync.Mutex
	var delays []time.Duration
	handled := make(chan struct{}, quiet)
	stop := make(chan struct{})
	for i := range workers {
		all.Go(func() {
			body := object{"worker": fmt.Sprint("w", i), "concurrency": 1, "block": "1s"}
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := read[ops.Taken](s.ask("POST", q+"/work", body).want(200, ""))
				delete(body, "ack")
				for _, m := range got.Messages {
					body["ack"] = []string{m.Receipt}
					if m.Tenant == "slow" {
						select { // the handler
						case <-time.After(slow):
						case <-stop:
						}
						continue
					}
					mu.Lock()
					delays = append(delays, time.Duration(m.PickupDelay)*time.Millisecond)
					mu.Unlock()
					handled <- struct{}{}
				}
			}
		})
	}
	<-handled
	for range quiet - 1 {
		s.ask("POST", q+"/messages", object{"tenant": "quiet"}).want(201, "")
		<-handled
	}
	close(stop)
	all.Wait()
	slices.Sort(delays)
	t.Logf("the quiet tenant waits for %v in the middle, %v at most", delays[quiet/2], delays[quiet-1])
	if worst := delays[quiet-1]; worst > slow/2 {
		t.Errorf("a quiet message waited for %v, as long as for a slow one", worst)
	}
}

// TestWorkersOfAChannel: workers of two services share a channel. A member has one worker at a time, also when it is marked
// again, and all of them are handled, although a worker dies with members in hand and the channel is resized.
func TestWorkersOfAChannel(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	services := []service{serve(t, api.Config{Client: client}), serve(t, api.Config{Client: client})}
	const c = "/v1/channels/pages"
	var mu sync.Mutex
	inHand, handled := map[jsontype.Text]string{}, map[jsontype.Text]int{}
	resizing := false
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	work := func(name string, s service) {
		next := object{"worker": name, "max": 3, "block": "200ms", "lease": "2s"}
		for ctx.Err() == nil {
			taken := read[ops.ChannelTaken](s.ask("POST", c+"/work", next).want(200, ""))
			done := []object{}
			for _, b := range taken.Batches {
				members := []jsontype.Text{}
				for _, e := range b.Entries {
					mu.Lock()
					if other, ok := inHand[e.Member]; ok && !resizing {
						t.Errorf("%s has %s while %s has it", name, e.Member, other)
					}
					inHand[e.Member] = name
					mu.Unlock()
					members = append(members, e.Member)
				}
				done = append(done, object{"token": b.Token, "members": members})
			}
			time.Sleep(time.Millisecond) // the work
			mu.Lock()
			for _, b := range taken.Batches {
				for _, e := range b.Entries {
					delete(inHand, e.Member)
					handled[e.Member]++
				}
			}
			mu.Unlock()
			next["done"] = done
		}
		next["leave"], next["max"] = true, 0
		s.ask("POST", c+"/work", next).want(200, "")
	}
	mark := func(from, to int) {
		members := []string{}
		for i := from; i < to; i++ {
			members = append(members, fmt.Sprint("page:", i))
		}
		services[0].ask("POST", c+"/marks", object{"members": members}).want(200, "")
	}
	all := func(what string, n, times int) {
		t.Helper()
		redistest.Eventually(t, what, func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range n {
				if handled[jsontype.Text(fmt.Sprint("page:", i))] < times {
					return false
				}
			}
			return true
		})
	}
	services[0].ask("POST", c+"/resize", object{"size": 8}).want(200, "") // more than workers
	for i := range 4 {
		workers.Go(func() { work(fmt.Sprint("w", i), services[i%2].in(t)) })
	}
	mark(0, 100)
	all("all members", 100, 1)
	mark(0, 100)
	all("all members again", 100, 2)

	// A worker dies with members in hand, and the channel is resized: a member may then be handled twice.
	mu.Lock()
	resizing = true
	mu.Unlock()
	mark(100, 150)
	var lost []ops.Reserved
	redistest.Eventually(t, "the worker that dies has members", func() bool {
		mark(100, 150)
		lost = read[ops.ChannelTaken](services[1].ask("POST", c+"/work", object{"worker": "dies", "max": 5, "lease": "1s", "block": "100ms"}).want(200, "")).Batches
		return len(lost) > 0
	})
	for _, size := range []int{9, 2, 5} {
		services[0].ask("POST", c+"/resize", object{"size": size}).want(200, "")
		mark(100+size, 160)
	}
	mark(150, 200)
	all("all members, those of the dead worker, too", 200, 1)
	redistest.Eventually(t, "nothing is left, in five lists", func() bool {
		s := read[ops.ChannelStats](services[0].ask("GET", c+"/stats", nil).want(200, ""))
		return s.Distinct == 0 && len(s.Icks) == 5 && s.Consumers == 4
	})
	// A late commit of the dead worker does no harm.
	for _, b := range lost {
		services[0].ask("POST", c+"/work", object{"worker": "dies", "max": 0, "leave": true, "done": []object{{"token": b.Token, "members": []string{"page:120"}}}}).want(200, "")
	}
	stop()
	workers.Wait()
	if s := read[ops.ChannelStats](services[0].ask("GET", c+"/stats", nil).want(200, "")); s.Consumers != 0 || s.Distinct != 0 {
		t.Errorf("at the end the channel has %+v", s)
	}
}
