package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/server/internal/api"
)

const replayed = "Idempotency-Replayed"

// TestReceiveAgain repeats a receive when its message is visible to others again: the
// receipt of the first answer would be worth nothing.
func TestReceiveAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	q, k := "/v1/queues/"+redistest.Name(t), key(redistest.Name(t))
	s.ask("POST", q+"/messages", object{"tenant": "a"}).want(201, "")
	receive := func() []ops.Message {
		return read[ops.Messages](s.ask("POST", q+"/receive", object{"visibility": "10ms"}, k)).Messages
	}
	first := receive()
	if len(first) != 1 {
		t.Fatalf("%d messages, want one", len(first))
	}
	redistest.Eventually(t, "the message comes again under another receipt", func() bool {
		again := receive()
		return len(again) == 1 && again[0].ID == first[0].ID && again[0].Receipt != first[0].Receipt
	})
}

// TestReplay repeats requests under their keys: they are done once, and answered
// alike, byte for byte.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	name := redistest.Name(t)
	q := "/v1/queues/" + name
	message := object{"tenant": "a", "body": "<&>"}
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
	}{
		{"POST", q + "/messages", message, 201},
		{"POST", q + "/messages/batch", object{"messages": []object{message, message}}, 201},
		{"POST", q + "/receive", object{"max": 2, "visibility": "1h"}, 200}, // the same messages with the same receipts
		{"POST", "/v1/hashes/" + name + "/h/incr", object{"field": "n", "by": 1}, 200},
		{"POST", "/v1/counters/" + name + "/add", object{"n": 1}, 200},
		{"POST", "/v1/counters", object{"counts": object{name: 1, name + "-2": 1}}, 200},
		{"POST", "/v1/leases/" + name + "/acquire", object{"ttl": "1h"}, 200},
		{"POST", q + "/pause", nil, 200},
		{"DELETE", q, nil, 200},
	} {
		k := key(redistest.Name(t))
		first := s.ask(tt.method, tt.path, tt.body, k).want(tt.status, "")
		again := s.ask(tt.method, tt.path, tt.body, k).want(tt.status, strings.TrimSpace(string(first.body)))
		if string(first.body) != string(again.body) || first.header.Get(replayed) != "" || again.header.Get(replayed) != "true" {
			t.Errorf("%s: %q, %q and then %q, %q", first.what, first.body, first.header.Get(replayed), again.body, again.header.Get(replayed))
		}
	}
	s.ask("POST", "/v1/hashes/"+name+"/h/incr", object{"field": "n", "by": 1}).want(200, `{"value":2}`)
	s.ask("GET", "/v1/counters/"+name, nil).want(200, `{"value":2,"servers":1,"answered":1}`)
}

// TestRefusalIsNotKept: a request that the state refused runs again under its key, and
// succeeds when the state allows it.
func TestRefusalIsNotKept(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	name := redistest.Name(t)
	q, acquire, incr := "/v1/queues/"+name, "/v1/leases/"+name+"/acquire", "/v1/hashes/"+name+"/h/incr"
	message := object{"tenant": "a"}
	s.ask("POST", q+"/tenants/limit", object{"max_waiting": 1}).want(200, "")
	s.ask("POST", q+"/messages", message).want(201, "")
	held := read[ops.Acquired](s.ask("POST", acquire, object{"ttl": "1h"}).want(200, ""))
	s.ask("POST", "/v1/hashes/"+name+"/h/set", object{"fields": object{"n": "text"}}).want(200, "")
	s.ask("POST", q+"-dead/messages", message).want(201, "")
	dead := s.take(q+"-dead", object{"max": 1})[0]
	s.ask("POST", q+"-dead/nack", object{"receipts": []string{dead.Receipt}, "dead": true}).want(200, "")
	for _, tt := range []struct {
		path   string
		body   any
		status int
		code   string
		change func()
		then   int
	}{
		{q + "/messages", message, 429, "tenant_full", func() {
			s.ask("POST", q+"/tenants/purge", message).want(200, "")
		}, 201},
		{acquire, object{"ttl": "1h"}, 409, "held", func() {
			s.ask("POST", "/v1/leases/"+name+"/release", object{"token": held.Token}).want(200, "")
		}, 200},
		{incr, object{"field": "n", "by": 1}, 409, "not_a_number", func() {
			s.ask("DELETE", "/v1/hashes/"+name+"/h", nil).want(200, "")
		}, 200},
		{q + "-dead/cancel", object{"ids": []string{dead.ID}}, 404, "not_found", func() {
			s.ask("POST", q+"-dead/dead/redrive", object{"ids": []string{dead.ID}}).want(200, `{"redriven":1}`)
		}, 200},
		{"/v1/queues/" + name + "-later/resume", nil, 404, "not_found", func() {
			s.ask("POST", "/v1/queues/"+name+"-later/messages", message).want(201, "")
		}, 200},
	} {
		k := key(redistest.Name(t))
		for range 2 {
			if got := s.ask("POST", tt.path, tt.body, k); got.header.Get(replayed) != "" {
				t.Errorf("%s: the refusal is replayed", got.what)
			} else {
				got.refused(tt.status, tt.code)
			}
		}
		tt.change()
		s.ask("POST", tt.path, tt.body, k).want(tt.then, "")
		if got := s.ask("POST", tt.path, tt.body, k).want(tt.then, ""); got.header.Get(replayed) != "true" {
			t.Errorf("%s: the answer is not replayed", got.what)
		}
	}
}

// TestRefusedMessagesOfABatch: a repeat under the key of a batch writes the messages that were
// refused, and those that were written not again.
func TestRefusedMessagesOfABatch(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	name := redistest.Name(t)
	q, k := "/v1/queues/"+name, key(name)
	s.ask("POST", q+"/tenants/limit", object{"tenant": "full", "max_waiting": 1}).want(200, "")
	s.ask("POST", q+"/messages", object{"tenant": "full"}).want(201, "")
	batch := object{"messages": []object{{"tenant": "a"}, {"tenant": "full"}, {"tenant": "b", "source": "s", "position": 2}}}
	s.ask("POST", q+"/messages/batch", batch, k).refused(429, "tenant_full")
	s.ask("POST", q+"/tenants/purge", object{"tenant": "full"}).want(200, "")
	s.ask("POST", q+"/messages/batch", batch, k).refused(409, "position_gap")
	s.ask("POST", q+"/position", object{"source": "s", "position": 1}).want(200, "")
	all := read[struct{ Messages []ops.Written }](s.ask("POST", q+"/messages/batch", batch, k).want(201, "")).Messages
	got := s.take(q, object{"max": 10})
	ids := map[string]string{}
	for _, m := range got {
		ids[string(m.Tenant)] = m.ID
	}
	if len(got) != 3 || len(all) != 3 || all[0].ID != ids["a"] || all[1].ID != ids["full"] || all[2].ID != ids["b"] {
		t.Errorf("the answer is %+v, and the queue has %+v, want three messages with these ids", all, ids)
	}
}

// TestAcquireAgain repeats an acquisition when its lease has ended: the repeat acquires it
// again, and does not say that the first one holds.
func TestAcquireAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	for _, ttl := range []string{"50ms", "2s"} {
		name := redistest.Name(t)
		lease, k := "/v1/leases/"+name, key(name)
		acquire := func() (ops.Acquired, bool) {
			got := s.ask("POST", lease+"/acquire", object{"ttl": ttl}, k)
			for got.status == 409 { // on a busy machine the shorter lease has ended when its answer comes
				got.refused(409, "expired")
				got = s.ask("POST", lease+"/acquire", object{"ttl": ttl}, k)
			}
			return read[ops.Acquired](got.want(200, "")), got.header.Get(replayed) == "true"
		}
		first, _ := acquire()
		redistest.Eventually(t, "the lease ends", func() bool {
			return !read[ops.LeaseState](s.ask("GET", lease, nil)).Held
		})
		if again, kept := acquire(); kept || again.Fence <= first.Fence {
			t.Errorf("after %s the repeat has %+v, replayed: %v, want the lease with a fence above %d", ttl, again, kept, first.Fence)
		}
	}
}

// TestAnswersThatEnd: an answer that is true for a time is kept for less than that, and one
// that soon ends is not kept.
func TestAnswersThatEnd(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	s := serve(t, api.Config{Client: client})
	answers, err := pinned.Open(t.Context(), client, "http", pinned.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.ask("POST", "/v1/queues/q/messages", object{"tenant": "a"}).want(201, "")
	receipts := func() []string { return []string{s.take("/v1/queues/q", object{"visibility": "1h"})[0].Receipt} }
	s.ask("POST", "/v1/leases/year/acquire", object{"ttl": "8000h"}, key("year")).want(200, "")
	s.api.Wait()
	for name, err := range answers.Names(t.Context()) {
		if _, left, failed := answers.Get(t.Context(), name); err != nil || failed != nil || left > 24*time.Hour || left < 23*time.Hour {
			t.Errorf("an answer that is true for a year is kept for %s, %v, %v, want 24h", left, err, failed)
		}
	}
	held := read[ops.Acquired](s.ask("POST", "/v1/leases/l/acquire", object{"ttl": "1h"}).want(200, "")).Token
	receipt := receipts()
	for _, tt := range []struct {
		path string
		body func(d string) any
	}{
		{"/v1/leases/l/refresh", func(d string) any { return object{"token": held, "ttl": d} }},
		{"/v1/leases/%s/acquire", func(d string) any { return object{"ttl": d} }},
		{"/v1/queues/q/extend", func(d string) any { return object{"receipts": receipt, "visibility": d} }},
		{"/v1/queues/none/receive", func(d string) any { return object{"visibility": d} }},
	} {
		for _, d := range []time.Duration{12 * time.Hour, time.Minute, 900 * time.Millisecond} {
			before := map[string]bool{}
			for name, err := range answers.Names(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				before[name] = true
			}
			s.ask("POST", strings.ReplaceAll(tt.path, "%s", d.String()), tt.body(d.String()), key("k "+d.String())).want(200, "")
			s.api.Wait()
			kept := time.Duration(0)
			for name, err := range answers.Names(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if _, left, err := answers.Get(t.Context(), name); err == nil && !before[name] {
					kept = left
				}
			}
			if min, max := d/2, d*4/5; d > time.Second && (kept < min || kept > max) || d < time.Second && kept > 0 {
				t.Errorf("%s: what is true for %s is kept for %s, want up to four fifths, and nothing below a second", tt.path, d, kept)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	name := redistest.Name(t)
	incr := "/v1/hashes/" + name + "/h/incr"
	one, two := object{"field": "n", "by": 1}, object{"field": "n", "by": 2}
	k := redistest.Name(t)
	s.ask("POST", incr, one, key(k)).want(200, `{"value":1}`)
	s.ask("POST", incr, two, key(k)).refused(422, "key_reused")
	s.ask("DELETE", "/v1/icks/"+name, nil, key(k)).want(200, `{"deleted":0}`)
	s.ask("DELETE", "/v1/icks/"+name+"?force=true", nil, key(k)).refused(422, "key_reused")
	s.ask("POST", "/v1/hashes/"+name+"/other/incr", one, key(k)).want(200, `{"value":1}`) // another request
	as := func(who string) change {
		return func(r *http.Request) { *r = *r.WithContext(access.With(r.Context(), access.Client{Name: who})) }
	}
	s.ask("POST", incr, one, key(k), as("mary")).want(200, `{"value":2}`) // and another one's
	s.ask("POST", incr, one, key(k), as("mary")).want(200, `{"value":2}`)
	s.ask("POST", incr, one, key(k)).want(200, `{"value":1}`)
	s.ask("POST", incr, one, key(strings.Repeat("~", 255-len(k))+k)).want(200, `{"value":3}`)

	for _, bad := range []string{"", strings.Repeat("k", 256), "tab\t", "ü", "a\x7f"} {
		s.ask("POST", incr, one, key(bad)).refused(400, "bad_key")
	}
	s.ask("POST", incr, one, func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }).refused(400, "bad_key")
	s.ask("GET", "/v1/hashes/"+name+"/h", nil, key("")).want(200, `{"fields":[{"field":"n","value":"3","ttl_ms":-1}]}`) // which changes nothing
}

// TestUnderWay: while the first request is in progress, a repeat is refused, also after the
// TTL of a mark, and afterwards it gets the answer.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{}, 1000)
	s := serve(t, api.Config{Hooks: []millrace.Hook{onCall(func(call millrace.Call) {
		if call.Script == "lease.acquire" {
			waiting <- struct{}{}
		}
	})}})
	s.api.SetMarkTTL(time.Second)
	lease := "/v1/leases/" + redistest.Name(t)
	held := read[ops.Acquired](s.ask("POST", lease+"/acquire", object{"ttl": "1h"}).want(200, ""))
	k, wait := redistest.Name(t), object{"ttl": "1h", "wait": "50s"}
	first := make(chan answer)
	go func() { first <- s.ask("POST", lease+"/acquire", wait, key(k)) }()
	for range 2 { // which is the first request's
		<-waiting
	}
	begun := time.Now()
	for time.Since(begun) < 2*time.Second {
		got := s.ask("POST", lease+"/acquire", wait, key(k))
		if got.refused(409, "in_progress"); got.header.Get("Retry-After") != "1" {
			t.Fatalf("Retry-After %q, want 1", got.header.Get("Retry-After"))
		}
		time.Sleep(100 * time.Millisecond) // between two tries, as a client that is told to come again
	}
	s.ask("POST", lease+"/acquire", object{"ttl": "2h"}, key(k)).refused(422, "key_reused")
	s.ask("POST", lease+"/release", object{"token": held.Token}).want(200, "")
	got := <-first
	got.want(200, "")
	s.ask("POST", lease+"/acquire", wait, key(k)).want(200, strings.TrimSpace(string(got.body)))
}

// onCall is a hook that runs before each call to Redis.
type onCall func(millrace.Call)

func (f onCall) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	f(call)
	return ctx, nil
}

// hook is a hook that runs before each call to Redis, and may delay it or change its
// context.
type hook func(context.Context, millrace.Call) context.Context

func (f hook) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	return f(ctx, call), nil
}

// outlive removes a queue's remembered requests, as a day or two does.
func outlive(t *testing.T, client rueidis.Client, queue string) {
	t.Helper()
	base := "mr:queue:{" + queue + "}"
	if err := client.Do(t.Context(), client.B().Del().Key(base+":keyed:0", base+":keyed:1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestClientWithAKeyGoes: a client hangs up when its message was written and the reply
// of Redis is on its way. The request still finishes and stores its answer, so that the
// client gets it on its next attempt, though the queue has forgotten the request.
func TestClientWithAKeyGoes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	direct, proxy := redis.Client(t), redistest.NewProxy(t, redis.Addr())
	s, other := serve(t, api.Config{Client: proxy.Client(t)}), serve(t, api.Config{Client: direct})
	name := redistest.Name(t)
	q, k, message := "/v1/queues/"+name, key(name), object{"tenant": "a"}
	s.ask("POST", q+"/messages", message, key("warm"+name)).want(201, "") // all is open
	proxy.Delay(300 * time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan answer)
	go func() {
		first <- s.ask("POST", q+"/messages", message, k, func(r *http.Request) { *r = *r.WithContext(ctx) })
	}()
	redistest.Eventually(t, "the message is written", func() bool {
		return read[ops.QueueStats](other.ask("GET", q+"/stats", nil)).Waiting == 2
	})
	leave()
	got := (<-first).want(201, "")
	proxy.Heal()
	s.api.Wait()
	outlive(t, direct, name)
	again := s.ask("POST", q+"/messages", message, k).want(201, strings.TrimSpace(string(got.body)))
	if again.header.Get(replayed) != "true" {
		t.Errorf("%s: done again", again.what)
	}
}

// TestLateProcess: a process is delayed, its mark expires, and another process does the
// repeated request. When the first one continues and fails, it removes no answer.
func TestLateProcess(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	begun, goOn := make(chan struct{}, 1000), make(chan struct{})
	held := serve(t, api.Config{Client: redis.Client(t), Timeout: 2 * time.Second, Hooks: []millrace.Hook{hook(func(ctx context.Context, call millrace.Call) context.Context {
		switch call.Script {
		case "fairqueue.write":
			begun <- struct{}{}
			<-goOn
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		case "pinned.expire", "pinned.delete":
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		}
		return ctx
	})}})
	s := serve(t, api.Config{Client: redis.Client(t)})
	const life = 600 * time.Millisecond
	held.api.SetMarkTTL(life)
	name := redistest.Name(t)
	path, k, message := "/v1/queues/"+name+"/messages", key(name), object{"tenant": "a"}
	first := make(chan answer)
	go func() { first <- held.ask("POST", path, message, k) }()
	<-begun
	redistest.Eventually(t, "the mark ends, and another process does it", func() bool {
		return s.ask("POST", path, message, k).header.Get(replayed) == "true"
	})
	close(goOn)
	(<-first).refused(503, "unavailable")
	held.api.Wait()
	for begun := time.Now(); time.Since(begun) < 3*life/2; {
		if got := s.ask("POST", path, message, k).want(201, ""); got.header.Get(replayed) != "true" {
			t.Fatalf("%s: the answer that was kept has gone", got.what)
		}
	}
}

// TestOneDeadline: a key does not make a request wait longer. The calls to Redis before
// the work have the same deadline, and an answer that cannot be stored by then is stored
// after the client has its reply.
func TestOneDeadline(t *testing.T) {
	t.Parallel()
	known, answered := false, make(chan struct{})
	var calls []string
	var deadlines []time.Time
	s := serve(t, api.Config{Timeout: time.Second, Hooks: []millrace.Hook{hook(func(ctx context.Context, call millrace.Call) context.Context {
		if !known {
			return ctx
		}
		deadline, _ := ctx.Deadline()
		if calls, deadlines = append(calls, call.Script), append(deadlines, deadline); len(calls) == 3 {
			select {
			case <-answered:
			case <-time.After(10 * time.Second):
				t.Error("the client is not answered until its answer is kept")
			}
		}
		return ctx
	})}})
	client := redistest.Shared(t).Client(t)
	path := "/v1/queues/" + redistest.Name(t) + "/messages"
	redistest.Eventually(t, "all that there is has begun", func() bool {
		s.ask("POST", path, object{"tenant": "a"}, key(redistest.Name(t))).want(201, "")
		for shard := range shards.Default {
			n, err := client.Do(t.Context(), client.B().Exists().Key(fmt.Sprintf("mr:key:{http/%d}", shard)).Build()).AsInt64()
			if err != nil || n == 0 {
				return false
			}
		}
		return true
	})
	known = true
	s.ask("POST", path, object{"tenant": "a"}, key(redistest.Name(t))).want(201, "")
	close(answered)
	s.api.Wait()
	if got, want := strings.Join(calls, " "), "pinned.set fairqueue.write pinned.set"; got != want || !deadlines[0].Equal(deadlines[1]) {
		t.Errorf("called %s until %v, want %s, and the first two until the same moment", got, deadlines, want)
	}
}

// TestTogether: of many that send the same request at the same time one does it, and
// all have its answer in the end.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	name := redistest.Name(t)
	var asking sync.WaitGroup
	for range 16 {
		asking.Go(func() {
			for {
				got := s.ask("POST", "/v1/hashes/"+name+"/h/incr", object{"field": "n", "by": 1}, key(name))
				if got.status != http.StatusConflict {
					got.want(200, `{"value":1}`)
					return
				}
				time.Sleep(10 * time.Millisecond) // as a client that is told to come again
			}
		})
	}
	asking.Wait()
}

// TestKilledInBetween: a structure remembers a request whose process was killed before
// it could store the answer. The test removes the answer instead, and repeats the
// request in another process.
func TestKilledInBetween(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	name := redistest.Name(t)
	q, k := "/v1/queues/"+name, key(name)
	for _, tt := range []struct {
		path string
		body any
	}{
		{q + "/messages", object{"tenant": "a"}},
		{"/v1/hashes/" + name + "/h/incr", object{"field": "n", "by": 1}},
		{"/v1/leases/" + name + "/acquire", object{"ttl": "30s"}},
		{"/v1/counters/" + name + "/add", object{"n": 1}},
		{"/v1/counters", object{"counts": object{name: 1, name + "-2": 1}}},
	} {
		first := serve(t, api.Config{Client: client}).ask("POST", tt.path, tt.body, k)
		forget(t, client)
		again := serve(t, api.Config{Client: redis.Client(t)}).ask("POST", tt.path, tt.body, k)
		again.want(first.status, strings.TrimSpace(string(first.body)))
		if again.header.Get(replayed) != "" {
			t.Errorf("%s: replayed, and should be done again", tt.path)
		}
	}
	s := serve(t, api.Config{Client: client})
	if got := s.take(q, object{"max": 10}); len(got) != 1 {
		t.Errorf("%d messages, want one", len(got))
	}
	s.ask("GET", "/v1/hashes/"+name+"/h", nil).want(200, `{"fields":[{"field":"n","value":"1","ttl_ms":-1}]}`)
	s.ask("GET", "/v1/counters/"+name, nil).want(200, `{"value":2,"servers":1,"answered":1}`)
}

// TestKilledADayAgo: a structure remembers a request whose answer was not stored for a
// day, and not for ever.
func TestKilledADayAgo(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	s, k := serve(t, api.Config{Client: client}), key("k")
	add := func() answer {
		s.ask("POST", "/v1/counters/c/add", object{"n": 1}, k).want(200, "")
		s.ask("POST", "/v1/hashes/ns/h/incr", object{"field": "n", "by": 1}, k).want(200, "")
		return s.ask("POST", "/v1/queues/q/messages", object{"tenant": "a"}, k).want(201, "")
	}
	first := add()
	for day, want := range []int{1, 2} {
		forget(t, client)
		nextDay(t, client)
		again := add()
		if known := string(again.body) == string(first.body); known != (want == 1) {
			t.Errorf("day %d: %s, after %s", day+1, again.body, first.body)
		}
		s.ask("GET", "/v1/counters/c", nil).want(200, fmt.Sprintf(`{"value":%d,"servers":1,"answered":1}`, want))
		s.ask("GET", "/v1/hashes/ns/h", nil).want(200, fmt.Sprintf(`{"fields":[{"field":"n","value":"%d","ttl_ms":-1}]}`, want))
		if n := read[ops.QueueStats](s.ask("GET", "/v1/queues/q/stats", nil)).Waiting; n != want {
			t.Errorf("day %d: %d messages, want %d", day+1, n, want)
		}
	}
}

// nextDay has structures remember the requests of today as those of yesterday, and
// those of yesterday as older ones.
func nextDay(t *testing.T, client rueidis.Client) {
	t.Helper()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*:keyed:[01]").Build()).AsStrSlice()
	if err != nil || len(keys) != 3 {
		t.Fatalf("remembered requests are in %v, %v, want one key of each structure", keys, err)
	}
	for _, key := range keys {
		turned := strings.TrimSuffix(key, "0") + "1"
		if rest, ok := strings.CutSuffix(key, "1"); ok {
			turned = rest + "0"
		}
		for _, cmd := range []rueidis.Completed{
			client.B().Rename().Key(key).Newkey(turned).Build(),
			client.B().Hincrby().Key(turned).Field("").Increment(-1).Build(),
		} {
			if err := client.Do(t.Context(), cmd).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// forget removes all answers that are kept.
func forget(t *testing.T, client rueidis.Client) {
	t.Helper()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*{http*").Build()).AsStrSlice()
	if err != nil || len(keys) == 0 {
		t.Fatalf("kept answers are %v, %v", keys, err)
	}
	if err := client.Do(t.Context(), client.B().Del().Key(keys...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestFailureIsNotKept: a request that failed because of Redis may be repeated at once.
func TestFailureIsNotKept(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	s := serve(t, api.Config{Client: client})
	name := redistest.Name(t)
	// A string stands where the queue should.
	if err := client.Do(t.Context(), client.B().Set().Key("mr:queue:{"+name+"}").Value("no queue").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	q, k := "/v1/queues/"+name, key(name)
	s.ask("POST", q+"/messages", object{"tenant": "a"}, k).refused(500, "broken")
	if err := client.Do(t.Context(), client.B().Del().Key("mr:queue:{"+name+"}").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the mark is removed", func() bool { // and not only hidden, when its time is over
		shards, err := client.Do(t.Context(), client.B().Keys().Pattern("*{http*:values").Build()).AsStrSlice()
		marks := int64(-len(shards)) // the placeholders
		for _, values := range shards {
			n, err := client.Do(t.Context(), client.B().Hlen().Key(values).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			marks += n
		}
		return err == nil && len(shards) > 0 && marks == 0
	})
	s.ask("POST", q+"/messages", object{"tenant": "a"}, k).want(201, "")
	s.ask("POST", q+"/messages", object{"tenant": "a"}, k).want(201, "")
	if got := s.take(q, object{"max": 10}); len(got) != 1 {
		t.Errorf("%d messages, want one", len(got))
	}
}

// TestKeysOnAFullServer: no answer can be kept, and requests that free memory still succeed.
func TestKeysOnAFullServer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	client := redis.Client(t)
	s := serve(t, api.Config{Client: client})
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages", object{"tenant": "a"}, key("fill")).want(201, "")
	s.ask("POST", q+"/messages", object{"tenant": "b"}, key("fill another")).want(201, "")
	both := s.take(q, object{"max": 2})
	receipt, other := both[0].Receipt, both[1].Receipt
	for _, setting := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue(setting[0], setting[1]).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	s.ask("POST", q+"/messages", object{"tenant": "a"}, key("full")).refused(507, "full")
	for range 2 { // the queue knows, though no answer is kept
		s.ask("POST", q+"/ack", object{"receipts": []string{receipt}}, key("ack")).want(200, `{"acked":1,"stale":0}`)
	}
	s.ask("POST", q+"/ack", object{"receipts": []string{receipt}}, key("ack again")).refused(409, "stale")
	// The key's use was not stored, so another request under it is done as new.
	s.ask("POST", q+"/ack", object{"receipts": []string{other}}, key("ack")).want(200, `{"acked":1,"stale":0}`)
	if left := read[ops.QueueStats](s.ask("GET", q+"/stats", nil)).InFlight; left != 0 {
		t.Errorf("%d messages are in flight, want none: both were acknowledged", left)
	}
}

// TestKeysWhereAnythingMayBeEvicted: a server that may evict an answer keeps it as long
// as it can.
func TestKeysWhereAnythingMayBeEvicted(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{Policy: "allkeys-lru", MaxMemory: "100mb"})
	s := serve(t, api.Config{Client: redis.Client(t)})
	incr, one := "/v1/hashes/ns/h/incr", object{"field": "n", "by": 1}
	for i := range 2 {
		got := s.ask("POST", incr, one, key("k")).want(200, `{"value":1}`)
		if want := fmt.Sprint(i == 1); got.header.Get(replayed) != map[string]string{"true": "true"}[want] {
			t.Errorf("time %d: replayed %q, want %s", i+1, got.header.Get(replayed), want)
		}
	}
	s.ask("POST", "/v1/leases/l/acquire", object{"ttl": "1h"}).refused(409, "evictable")
	s.ask("POST", "/v1/leases/l/acquire", object{"ttl": "1h", "allow_evictable": true}).want(200, "")
}

// TestRedriveAllAgain: a redrive of all dead messages fails after its first 33. The
// repeat redrives the others, and must not take them for the first ones.
func TestRedriveAllAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	name := redistest.Name(t)
	q, k := "/v1/queues/"+name, key(name)
	redis := func(command ...string) {
		if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Error(err)
		}
	}
	base, calls := "mr:queue:{"+name+"}", 0
	s := serve(t, api.Config{Client: client, Hooks: []millrace.Hook{onCall(func(call millrace.Call) {
		if call.Script == "fairqueue.change" {
			if calls++; calls == 2 {
				redis("RENAME", base, base+":aside")
				redis("SET", base, "no queue")
			}
		}
	})}})
	for _, n := range []int{1000, 200} {
		messages := make([]object, n)
		for i := range messages {
			messages[i] = object{"tenant": "a"}
		}
		s.ask("POST", q+"/messages/batch", object{"messages": messages}).want(201, "")
		var receipts []string
		for _, m := range s.take(q, object{"max": 1000, "visibility": "1h"}) {
			receipts = append(receipts, m.Receipt)
		}
		s.ask("POST", q+"/nack", object{"receipts": receipts, "dead": true}).want(200, fmt.Sprintf(`{"nacked":%d,"stale":0}`, n))
	}
	s.ask("POST", q+"/dead/redrive", object{"all": true}, k).refused(500, "broken")
	redis("RENAME", base+":aside", base)
	s.api.Wait() // until the mark is removed
	s.ask("POST", q+"/dead/redrive", object{"all": true}, k).want(200, `{"redriven":1167}`)
	if left := read[ops.QueueStats](s.ask("GET", q+"/stats", nil)).Dead; left != 0 {
		t.Errorf("%d are dead still, want all redriven", left)
	}
}
