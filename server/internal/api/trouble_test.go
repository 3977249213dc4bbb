package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server/internal/api"
)

// TestProblems has an error of each kind answered.
func TestProblems(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	client := redistest.Shared(t).Client(t)
	reply := func(text string) error {
		return client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
	}
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{millrace.ErrBadName.Errorf("no name"), 400, "bad_name"},
		{jsontype.ErrScore.Errorf("not a score"), 400, "bad_score"},
		{&millrace.Error{Code: "unauthorized", Message: "who?"}, 401, "unauthorized"},
		{&millrace.Error{Code: "cross_origin", Message: "whence?"}, 403, "cross_origin"},
		{&millrace.Error{Code: "misdirected", Message: "whither?"}, 421, "misdirected"},
		{millrace.ErrNotFound, 404, "not_found"},
		{millrace.ErrNotFound, 404, "not_found"},
		{millrace.ErrStale, 409, "stale"},
		{lease.ErrHeld, 409, "held"},
		{lease.ErrLost, 409, "lost"},
		{lease.ErrExpired, 409, "expired"},
		{millrace.ErrEvictable, 409, "evictable"},
		{&millrace.Error{Code: "retired", Message: "it is closed"}, 409, "retired"},
		{expiry.ErrNotNumber, 409, "not_a_number"},
		{scatter.ErrOverflow, 409, "overflow"},
		{scatter.ErrType, 409, "wrong_type"},
		{millrace.ErrBroken.Wrap(reply("BROKEN")), 500, "broken"},
		{millrace.ErrVersion, 501, "unknown_version"},
		{reply("NOPERM this user has no permissions"), 502, "no_permission"},
		{reply("ERR odd"), 502, "redis"},
		{reply("WRONGPASS invalid username-password pair"), 502, "redis"},
		{reply("LOADING Redis is loading the dataset in memory"), 503, "unavailable"},
		{reply("READONLY You can't write against a read only replica."), 503, "unavailable"},
		{reply("MASTERDOWN Link with MASTER is down"), 503, "unavailable"},
		{reply("CLUSTERDOWN Hash slot not served"), 503, "unavailable"},
		{reply("BUSY Redis is busy running a script."), 503, "unavailable"},
		{reply("NOREPLICAS Not enough good replicas to write."), 503, "unavailable"},
		{dial, 503, "unavailable"},
		{errors.Join(context.DeadlineExceeded, dial), 503, "unavailable"},
		{io.EOF, 503, "unavailable"},
		{rueidis.ErrClosing, 503, "unavailable"},
		{context.Canceled, 503, "unavailable"},
		{fleet.ErrUnavailable.Wrap(dial), 503, "unavailable"},
		{fleet.ErrReadOnly, 503, "read_only"},
		{millrace.ErrUncertain, 503, "uncertain"},
		{retry.Uncertain(context.DeadlineExceeded), 503, "timeout"},
		{retry.Uncertain(io.EOF), 503, "unavailable"},
		{fleet.ErrUnknownServer, 503, "stranger"},
		{fleet.ErrClosed, 503, "closed"},
		{millrace.ErrPartial.Wrap(io.EOF), 503, "partial"},
		{context.DeadlineExceeded, 503, "timeout"},
		{millrace.ErrFull, 507, "full"},
	} {
		w := httptest.NewRecorder()
		api.WriteProblem(w, tt.err)
		got := answer{t, tt.err.Error(), w.Code, w.Header(), w.Body.Bytes()}
		p := got.refused(tt.status, tt.code)
		if p.Type != "about:blank" || p.Title != http.StatusText(tt.status) || p.Status != tt.status || p.Detail == "" {
			t.Errorf("%v: %s", tt.err, got.body)
		}
		if again := w.Header().Get("Retry-After"); (again != "") != (tt.status == 503) {
			t.Errorf("%v: %d with Retry-After %q", tt.err, tt.status, again)
		}
		s.spec.validate(got, got.body, "components", "schemas", "Problem")
	}
}

// TestRedisIsAway: no request hangs, and each is told to come again. The answers
// contain neither an address nor a password.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{AOF: true, Args: []string{"--requirepass", "s3cr3t-of-redis"}})
	client := redis.Client(t, func(o *rueidis.ClientOption) { o.Password = "s3cr3t-of-redis" })
	s := serve(t, api.Config{Client: client, Timeout: time.Second})
	patient := serve(t, api.Config{Client: client, Timeout: 7 * time.Second}) // longer than calls are repeated
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages", object{"tenant": "a"}).want(201, "")
	away := func(s service, within time.Duration) {
		t.Helper()
		var asking sync.WaitGroup
		for _, ask := range []func() answer{
			func() answer { return s.ask("POST", q+"/messages", object{"tenant": "a"}) },
			func() answer { return s.ask("POST", q+"/messages", object{"tenant": "a"}, key(redistest.Name(t))) },
			func() answer { return s.ask("POST", q+"/receive", object{"block": "1s"}) },
			func() answer { return s.ask("GET", "/v1/queues", nil) },
			func() answer { return s.ask("GET", "/v1/icks/i/stats", nil) },
			func() answer {
				return s.ask("POST", "/v1/leases/l/acquire", object{"ttl": "1s", "wait": "1s", "token": "t"})
			},
			func() answer { return s.ask("GET", "/v1/hashes/never-seen/h", nil) },
			func() answer { return s.ask("GET", "/v1/counters/n", nil) },
		} {
			asking.Go(func() {
				begun := time.Now()
				got := ask()
				if took := time.Since(begun); took > within {
					t.Errorf("%s took %s", got.what, took)
				}
				p := read[problem](got)
				if got.status != 503 || got.header.Get("Retry-After") == "" || p.Hint == "" {
					t.Errorf("%s: %d %s, want 503 with a Retry-After and a hint", got.what, got.status, got.body)
				}
				for _, secret := range []string{"s3cr3t", redis.Addr()} {
					if strings.Contains(string(got.body), secret) && (p.Code != "partial" || secret == "s3cr3t") {
						t.Errorf("%s says %q: %s", got.what, secret, got.body)
					}
				}
			})
		}
		asking.Wait()
	}
	redis.Pause()
	away(s, 6*time.Second)
	redis.Resume()
	redis.Kill()
	away(patient, 12*time.Second)
	redis.Restart()
	redistest.Eventually(t, "served again", func() bool { return s.ask("GET", q+"/stats", nil).status == 200 })
}

// TestClientGoes: a client that waits and goes takes nothing along.
func TestClientGoes(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	base, q := s.listen(), "/v1/queues/"+redistest.Name(t)
	id := read[ops.Written](s.ask("POST", q+"/messages", object{"tenant": "a"}).want(201, "")).ID
	first := s.take(q, nil)[0]
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+q+"/receive", strings.NewReader(`{"block":"1m","visibility":"1h"}`))
		if err == nil {
			r.Header.Set("Content-Type", "application/json")
			var response *http.Response
			if response, err = http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
			}
		}
		left <- err
	}()
	time.Sleep(200 * time.Millisecond) // or it goes before it waits, which must do no harm either
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client that goes: %v", err)
	}
	s.ask("POST", q+"/nack", object{"receipts": []string{first.Receipt}}).want(200, `{"nacked":1,"stale":0}`)
	again := s.take(q, object{"block": "30s"})[0]
	if again.ID != id || again.Attempt != 2 {
		t.Errorf("read %+v, want %s for the second time", again, id)
	}
}

// TestDrain: waiting requests end at once with their results so far; the others go on.
func TestDrain(t *testing.T) {
	t.Parallel()
	waiting := make(chan string, 1000)
	s := serve(t, api.Config{Hooks: []millrace.Hook{onCall(func(call millrace.Call) { waiting <- call.Script })}})
	name := redistest.Name(t)
	s.ask("POST", "/v1/leases/"+name+"/acquire", object{"ttl": "1h"}).want(200, "")
	<-waiting
	answers := make(chan answer)
	go func() { answers <- s.ask("POST", "/v1/queues/"+name+"/receive", object{"block": "1m"}) }()
	go func() { answers <- s.ask("POST", "/v1/leases/"+name+"/acquire", object{"ttl": "1h", "wait": "1m"}) }()
	go func() {
		answers <- s.ask("POST", "/v1/channels/"+name+"/work", object{"worker": "w", "max": 1, "block": "1m"})
	}()
	for range 3 {
		<-waiting
	}
	begun := time.Now()
	s.api.Drain()
	for range 3 {
		switch got := <-answers; {
		case strings.Contains(got.what, "/receive"):
			got.want(200, `{"messages":[]}`)
		case strings.Contains(got.what, "/work"):
			got.want(200, `{"batches":[],"committed":0,"kept":0}`)
		default:
			got.refused(503, "unavailable")
		}
	}
	s.ask("POST", "/v1/queues/"+name+"/receive", object{"block": "1m"}).want(200, `{"messages":[]}`)
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("draining took %s", took)
	}
	s.ask("POST", "/v1/queues/"+name+"/messages", object{"tenant": "a"}).want(201, "")
}

// TestARoundWhileDraining: a round that settles and meets the end of the service is to be repeated, and then settled.
func TestARoundWhileDraining(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	q := "/v1/queues/" + redistest.Name(t)
	s.ask("POST", q+"/messages/batch", object{"messages": []object{{"tenant": "a"}, {"tenant": "a"}}}).want(201, "")
	taken := s.take(q, object{"max": 2, "visibility": "1h"})
	s.api.Drain()
	s.ask("POST", q+"/work", object{"block": "1m"}).want(200, `{"messages":[],"stale":[]}`)
	another := serve(t, api.Config{})
	for i, with := range [][]change{nil, {key("k")}} {
		round := object{"max": 5, "block": "1m", "ack": []string{taken[i].Receipt}}
		got := s.ask("POST", q+"/work", round, with...)
		if got.status != 200 {
			got.refused(503, "unavailable")
			round["block"] = "0s"
			another.ask("POST", q+"/work", round).want(200, "")
		}
		if stats := read[ops.QueueStats](s.ask("GET", q+"/stats", nil).want(200, "")); stats.InFlight != 1-i {
			t.Errorf("%d messages are in flight, want that the one which was acknowledged is gone", stats.InFlight)
		}
	}
}

// TestAChannelRoundWhileDraining: the same of a channel.
func TestAChannelRoundWhileDraining(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	c := "/v1/channels/" + redistest.Name(t)
	s.ask("POST", c+"/marks", object{"members": []string{"a"}}).want(200, "")
	batch := read[ops.ChannelTaken](s.ask("POST", c+"/work", object{"worker": "w", "max": 1, "block": "10s"}).want(200, "")).Batches[0]
	s.api.Drain()
	round := object{"worker": "w", "max": 1, "block": "1m", "done": []object{{"token": batch.Token, "members": []string{"a"}}}}
	if got := s.ask("POST", c+"/work", round); got.status != 200 {
		got.refused(503, "unavailable")
		round["block"] = "0s"
		serve(t, api.Config{}).ask("POST", c+"/work", round).want(200, "")
	}
	if stats := read[ops.ChannelStats](s.ask("GET", c+"/stats", nil).want(200, "")); stats.Reserved != 0 {
		t.Errorf("%d members are reserved, want that the one which is done is gone", stats.Reserved)
	}
}

// TestLongestWait: a request may wait as long as the description says, and no longer.
func TestLongestWait(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{MaxBlock: 1500 * time.Millisecond, Timeout: time.Second}) // the wait is not part of Timeout
	name := redistest.Name(t)
	lease := "/v1/leases/" + name + "/acquire"
	s.ask("POST", lease, object{"ttl": "1h"}).want(200, "")
	for _, tt := range []struct {
		path, field string
		body        object
	}{
		{"/v1/queues/" + name + "/receive", "block", object{}},
		{lease, "wait", object{"ttl": "1h"}},
	} {
		tt.body[tt.field] = "1501ms"
		p := s.ask("POST", tt.path, tt.body).refused(400, "bad_request")
		if len(p.Errors) != 1 || p.Errors[0].Location != "body."+tt.field || p.Errors[0].Message != "expected at most 1.5s" {
			t.Errorf("%s: errors %+v", tt.path, p.Errors)
		}
	}
	for schema, field := range map[string]string{"Receive": "block", "AcquireRequest": "wait"} {
		if got := s.spec.at("components", "schemas", schema, "properties", field, "x-maximum"); got != "1.5s" {
			t.Errorf("%s.%s: the description says at most %v, want 1.5s", schema, field, got)
		}
	}
	begun := time.Now()
	s.ask("POST", "/v1/queues/"+name+"/receive", object{"block": "1.5s"}).want(200, `{"messages":[]}`)
	if took := time.Since(begun); took < 1500*time.Millisecond {
		t.Errorf("waited for %s, want 1.5 s", took)
	}
}

// TestPartialCounter: the error comes with the sum of the servers that answer.
func TestPartialCounter(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	sc, err := scatter.New([]scatter.Server{
		{Name: "first", Client: first.Client(t)}, {Name: "second", Client: second.Client(t)},
	}, scatter.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer sc.Close()
	s := serve(t, api.Config{Client: first.Client(t), Counters: sc})
	on := make(map[string]int)
	for range 100 {
		on[read[ops.Added](s.ask("POST", "/v1/counters/n/add", object{"n": 1}).want(200, "")).Server]++
	}
	if len(on) != 2 {
		t.Errorf("added on %v, want both servers", on)
	}
	s.ask("GET", "/v1/counters/n", nil).want(200, `{"value":100,"servers":2,"answered":2}`)
	second.Kill()
	p := s.ask("GET", "/v1/counters/n", nil).refused(503, "partial")
	if p.Value != int64(on["first"]) || len(p.Missing) != 1 || p.Missing[0] != "second" {
		t.Errorf("partial %+v, want what first has: %d", p, on["first"])
	}
	s.ask("GET", "/v1/counters/n?partial=true", nil).want(200, fmt.Sprintf(`{"value":%d,"servers":2,"answered":1,"missing":["second"]}`, on["first"]))
	s.ask("GET", "/v1/counters?name=n&name=m&partial=true", nil).want(200,
		fmt.Sprintf(`{"counters":[{"name":"n","value":%d},{"name":"m","value":0}],"servers":2,"answered":1,"missing":["second"]}`, on["first"]))
	if p := s.ask("GET", "/v1/counters?name=n&name=m", nil).refused(503, "partial"); len(p.Missing) != 1 || !strings.Contains(p.Hint, "partial=true") {
		t.Errorf("several in part %+v, want who is missing, and how to get the others", p)
	}
	first.Kill()
	s.ask("GET", "/v1/counters/n?partial=true", nil).refused(503, "partial")
	s.ask("GET", "/v1/counters?name=n&partial=true", nil).refused(503, "partial")
}

// TestLargeHash: one with more fields than an answer may have is not read whole.
func TestLargeHash(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	name := redistest.Name(t)
	h, err := expiry.Open(t.Context(), client, name, expiry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{})
	fields := make(map[string][]byte)
	for i := range 10_001 {
		if fields[strings.Repeat("f", i%50)+string(rune('0'+i/50))] = nil; len(fields) == 1000 || i == 10_000 {
			if _, err := h.SetMany(t.Context(), "h", fields, expiry.SetConfig{}); err != nil {
				t.Fatal(err)
			}
			clear(fields)
		}
	}
	s.ask("GET", "/v1/hashes/"+name+"/h", nil).refused(409, "too_many")
	s.ask("GET", "/v1/hashes/"+name+"/h?field=0", nil).want(200, `{"fields":[{"field":"0","value":"","ttl_ms":-1}]}`)
	s.ask("DELETE", "/v1/hashes/"+name+"/h", nil).want(200, `{"deleted":10001}`)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, cfg := range []api.Config{
		{}, {Client: client, Timeout: -1}, {Client: client, MaxBlock: -1}, {Client: client, MaxBody: -1}, {Client: client, BodyTimeout: -1},
	} {
		if _, err := api.New(cfg); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("New(%+v) = %v, want ErrBadArgument", cfg, err)
		}
	}
}

// TestAcquiredForNobody: a lease is acquired, and the call that gives it the whole TTL fails.
// The client has no token, so the service releases the lease.
func TestAcquiredForNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{Hooks: []millrace.Hook{hook(func(ctx context.Context, call millrace.Call) context.Context {
		if call.Script != "lease.refresh" {
			return ctx
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	})}})
	lease := "/v1/leases/" + redistest.Name(t)
	s.ask("POST", lease+"/acquire", object{"ttl": "2m"}).refused(503, "unavailable")
	redistest.Eventually(t, "the lease is free", func() bool {
		return !read[ops.LeaseState](s.ask("GET", lease, nil).want(200, "")).Held
	})
}
