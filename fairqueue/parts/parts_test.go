package parts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// servers starts n servers and returns a queue with a part on each.
func servers(t *testing.T, n int, change func(*Config)) (*Queue, []*redistest.Server) {
	t.Helper()
	var list []*redistest.Server
	var clients []rueidis.Client
	for range n {
		s := redistest.Start(t, redistest.Options{AOF: true, Args: []string{"--appendfsync", "always"}})
		list, clients = append(list, s), append(clients, s.Client(t))
	}
	cfg := Config{Parts: Across("jobs", clients...), Timeout: 500 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	return mustNew(t, cfg), list
}

func mustNew(t *testing.T, cfg Config) *Queue {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// onShared returns a queue with n parts on the shared server.
func onShared(t *testing.T, n int) *Queue {
	t.Helper()
	return mustNew(t, Config{Parts: On(redistest.Shared(t).Client(t), redistest.Name(t), n)})
}

func write(t *testing.T, q *Queue, drafts ...fairqueue.Draft) []fairqueue.Written {
	t.Helper()
	written, err := q.WriteBatch(t.Context(), drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// many returns n drafts of each tenant.
func many(n int, tenants ...string) (drafts []fairqueue.Draft) {
	for i := range n {
		for _, tenant := range tenants {
			drafts = append(drafts, fairqueue.Draft{Tenant: tenant, Body: fmt.Append(nil, tenant, i)})
		}
	}
	return drafts
}

func TestLife(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	if _, err := q.Read(t.Context(), fairqueue.ReadConfig{}); !errors.Is(err, fairqueue.ErrEmpty) {
		t.Fatalf("an empty queue: %v", err)
	}
	tenants := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	written := write(t, q, many(5, tenants...)...)
	ids := map[string]bool{}
	used := map[string]bool{}
	for _, w := range written {
		ids[w.ID] = true
		used[strings.Split(w.ID, ".")[0]] = true
	}
	if len(ids) != 40 || len(used) != 4 {
		t.Fatalf("%d ids, parts %v", len(ids), used)
	}
	s, err := q.Stats(t.Context())
	if err != nil || s.Waiting != 40 || len(s.Parts) != 4 {
		t.Fatalf("stats %+v, %v", s, err)
	}
	states, err := q.Cancel(t.Context(), written[0].ID, "3."+strings.Repeat("0", 16), written[1].ID)
	if err != nil || !slices.Equal(states, []fairqueue.State{fairqueue.Waiting, fairqueue.Gone, fairqueue.Waiting}) {
		t.Fatalf("cancel: %v, %v", states, err)
	}
	var receipts, read []string
	for len(receipts) < 38 {
		messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if !ids[m.ID] {
				t.Fatalf("read %s, which was not written", m.ID)
			}
			delete(ids, m.ID)
			receipts, read = append(receipts, m.Receipt), append(read, m.ID)
		}
	}
	good, err := q.Extend(t.Context(), time.Minute, receipts...)
	if err != nil || slices.Contains(good, false) || len(good) != 38 {
		t.Fatalf("extend: %v, %v", good, err)
	}
	if n, err := q.Nack(t.Context(), fairqueue.NackConfig{Dead: true}, receipts[0], receipts[1]); n != 2 || err != nil {
		t.Fatalf("nack: %d, %v", n, err)
	}
	if n, err := q.Ack(t.Context(), receipts[2:]...); n != 36 || err != nil {
		t.Fatalf("ack: %d, %v", n, err)
	}
	if n, err := q.Ack(t.Context(), receipts[2]); n != 0 || !errors.Is(err, millrace.ErrStale) {
		t.Fatalf("ack again: %d, %v", n, err)
	}
	var dead, redriven int
	for i, part := range q.Parts() {
		for m, err := range part.Dead().All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(read[:2], fmt.Sprint(i, ".", m.ID)) {
				t.Fatalf("%s in part %d was not made dead", m.ID, i)
			}
			dead++
		}
		n, _, err := part.Retry(t.Context(), fairqueue.SearchConfig{State: fairqueue.Dead})
		if err != nil {
			t.Fatal(err)
		}
		redriven += n
	}
	if dead != 2 || redriven != 2 {
		t.Fatalf("%d dead, %d redriven, want 2", dead, redriven)
	}
	if err := q.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Read(t.Context(), fairqueue.ReadConfig{}); !errors.Is(err, fairqueue.ErrPaused) {
		t.Fatalf("a paused queue: %v", err)
	}
	if err := q.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := q.Len(t.Context()); n != 2 || err != nil {
		t.Fatalf("len: %d, %v", n, err)
	}
	if err := q.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := q.Stats(t.Context()); err != nil || s.Waiting != 0 {
		t.Fatalf("stats after the end: %+v, %v", s, err)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for name, cfg := range map[string]Config{
		"no parts":     {},
		"twice":        {Parts: append(On(client, "x", 2), Part{Client: client, Name: "x/1"})},
		"all drain":    {Parts: []Part{{Client: client, Name: "x", Draining: true}}},
		"PerTenant":    {Parts: On(client, "x", 2), PerTenant: -1},
		"a timeout":    {Parts: On(client, "x", 2), Timeout: -1},
		"a part's own": {Parts: On(client, "x", 2), Queue: fairqueue.Config{MaxAttempts: -1}},
	} {
		if _, err := New(cfg); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	q := onShared(t, 2)
	for _, text := range []string{"", "x", "2.x", "-1.x", "00.x", "0x1.x", "0." + "not a receipt"} {
		if _, err := q.Ack(t.Context(), text); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("receipt %q: %v", text, err)
		}
	}
	if _, err := q.Write(t.Context(), fairqueue.Draft{}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("a draft without a tenant: %v", err)
	}
	if now, _ := q.parts[0].look(); now != open {
		t.Error("a bad argument speaks against a part")
	}
}

// TestLeastLoaded: a tenant's messages go to the emptier one of its parts.
func TestLeastLoaded(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	write(t, q, many(200, "a")...) // one call, whose load is seen by the next
	own := q.PartsOf("a")
	for range 200 {
		write(t, q, fairqueue.Draft{Tenant: "a"})
	}
	for i, part := range q.Parts() {
		n, err := part.Len(t.Context())
		if want := slices.Contains(own, i); err != nil || want != (n > 0) || n > 250 {
			t.Errorf("part %d of %v has %d messages, %v", i, own, n, err)
		}
	}
}

// TestPartsAddedAndDrained: a tenant keeps its parts, but for one at most.
func TestPartsAddedAndDrained(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	parts := On(client, redistest.Name(t), 9)
	few, more := mustNew(t, Config{Parts: parts[:8]}), mustNew(t, Config{Parts: parts})
	parts[3].Draining = true
	drained := mustNew(t, Config{Parts: parts})
	for i := range 500 {
		tenant := fmt.Sprint("tenant", i)
		a, b, c := few.PartsOf(tenant), more.PartsOf(tenant), drained.PartsOf(tenant)
		kept := func(a, b []int) (n int) {
			for _, p := range a {
				if slices.Contains(b, p) {
					n++
				}
			}
			return n
		}
		if n := kept(a, b); n < 1 || n == 1 && !slices.Contains(b, 8) {
			t.Fatalf("%s had %v and has %v", tenant, a, b)
		}
		if n := kept(b, c); slices.Contains(c, 3) || n < 1 || n == 1 && !slices.Contains(b, 3) {
			t.Fatalf("%s had %v and has %v while part 3 drains", tenant, b, c)
		}
	}
	// Messages in a part that drains are read.
	if _, err := drained.parts[3].queue.Write(t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	messages, err := drained.Read(t.Context(), fairqueue.ReadConfig{Block: time.Minute})
	if err != nil || string(messages[0].Body) != "last" {
		t.Errorf("a part that drains gives %+v, %v", messages, err)
	}
}

// TestDedupe: a dedupe id and a source find their part again, whatever the loads.
func TestDedupe(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	for i := range 50 {
		tenant, id := fmt.Sprint("t", i%5), fmt.Sprint("id", i)
		first := write(t, q, fairqueue.Draft{Tenant: tenant, DedupeID: id})
		write(t, q, many(3, tenant)...)
		again := write(t, q, fairqueue.Draft{Tenant: tenant, DedupeID: id})
		if !again[0].Duplicate || again[0].ID != first[0].ID {
			t.Fatalf("%+v is not the duplicate of %+v", again, first)
		}
		for again := range 2 {
			w := write(t, q, fairqueue.Draft{Tenant: tenant, Source: "log", Position: int64(i + 1)})
			if w[0].Duplicate != (again == 1) {
				t.Fatalf("position %d, try %d: %+v", i+1, again, w)
			}
			write(t, q, many(1, tenant)...)
		}
	}
	positions := int64(0)
	for _, part := range q.Parts() {
		at, err := part.Sources().Position(t.Context(), "log")
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			t.Fatal(err)
		}
		positions += at
	}
	if positions != 50 {
		t.Errorf("the source is at %d", positions)
	}
}

// outage is a fault of a server.
type outage struct {
	begin, end func()
	hits       func(part int) bool // whether it has that part
	readable   bool                // whether replicas answer meanwhile
}

// TestServerIsKilled: while one server of four is down, each tenant with another part writes and
// is served, within a bounded time. Messages on the dead server come when it is back, and
// no confirmed message is lost.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	first := func(part int) bool { return part == 0 }
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		q, list := servers(t, 4, nil)
		survive(t, q, outage{begin: list[0].Kill, end: list[0].Restart, hits: first})
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		q, list := servers(t, 4, nil)
		survive(t, q, outage{begin: list[0].Pause, end: list[0].Resume, hits: first})
	})
}

// survive has a queue go through an outage of some of its parts.
func survive(t *testing.T, q *Queue, o outage) {
	t.Helper()
	hit := func(id string) bool {
		index, _, _ := strings.Cut(id, ".")
		i, err := strconv.Atoi(index)
		return err == nil && o.hits(i)
	}
	var tenants []string
	for i := 0; len(tenants) < 20; i++ {
		tenant := fmt.Sprint("tenant", i)
		if !o.hits(q.PartsOf(tenant)[0]) || !o.hits(q.PartsOf(tenant)[1]) {
			tenants = append(tenants, tenant)
		}
	}
	confirmed := map[string]bool{}
	for _, w := range write(t, q, many(10, tenants...)...) {
		confirmed[w.ID] = true
	}
	o.begin()

	// The first writes find out. After that no write goes there.
	uncertain := 0
	closed := func() bool {
		for i, p := range q.parts {
			if now, _ := p.look(); (now == open) == o.hits(i) {
				return false
			}
		}
		return true
	}
	for i := 0; !closed(); i++ {
		id, err := q.Write(t.Context(), fairqueue.Draft{Tenant: tenants[i%20]})
		if err == nil {
			confirmed[id] = true
		} else {
			uncertain++
		}
	}
	for i := range 200 {
		id, err := q.Write(t.Context(), fairqueue.Draft{Tenant: tenants[i%20]})
		if err != nil {
			t.Fatalf("a tenant with parts %v cannot write: %v", q.PartsOf(tenants[i%20]), err)
		}
		if hit(id) {
			t.Fatal("a write went to the dead server")
		}
		confirmed[id] = true
	}

	// Messages in the other parts are handled.
	left := map[string]bool{}
	alive := 0
	for id := range confirmed {
		left[id] = true
		if !hit(id) {
			alive++
		}
	}
	if alive == len(left) {
		t.Error("nothing lies on the dead server, so this shows nothing")
	}
	var handled atomic.Int64
	seen := make(chan string, 10000)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 4, Visibility: time.Second}, func(_ context.Context, m fairqueue.Message) error {
			seen <- m.ID
			handled.Add(1)
			return nil
		})
	}()
	redistest.Eventually(t, "the others' messages are handled", func() bool { return handled.Load() >= int64(alive) })

	if _, err := q.Stats(t.Context()); errors.Is(err, millrace.ErrPartial) == o.readable {
		t.Errorf("stats without a server: %v", err)
	}
	o.end()
	redistest.Eventually(t, "all is handled", func() bool {
		for {
			select {
			case id := <-seen:
				delete(left, id)
				continue
			default:
			}
			return len(left) == 0
		}
	})
	redistest.Eventually(t, "all parts take messages again", func() bool {
		return !slices.ContainsFunc(q.parts, func(p *part) bool {
			now, _ := p.look()
			return now != open
		})
	})
	stop()
	<-done
	t.Logf("%d writes were uncertain", uncertain)
}

// TestUnsettledAtTheEnd: Consume returns which parts did not settle their messages at its end, and the cause of its end.
func TestUnsettledAtTheEnd(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q := onShared(t, 3)
	running, goOn := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	for i := range 3 {
		if _, err := q.parts[i].queue.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		done <- q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 3}, func(context.Context, fairqueue.Message) error {
			running <- struct{}{}
			<-goOn
			return nil
		})
	}()
	for range 3 {
		<-running
	}
	cause := errors.New("the test is over")
	stop(cause)
	for i := range 2 {
		key := "mr:queue:{" + q.parts[i].queue.Name() + "}:hot"
		if err := client.Do(t.Context(), client.B().Hdel().Key(key).Field("t").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	err := <-done
	if !errors.Is(err, fairqueue.ErrUnsettled) || !errors.Is(err, cause) {
		t.Errorf("Consume = %v, want %v and %v", err, fairqueue.ErrUnsettled, cause)
	}
	if n := strings.Count(err.Error(), "1 message was not settled"); n != 2 {
		t.Errorf("Consume = %q, want a message of each of two parts", err)
	}
}

// TestHandlersAreShared: never more handlers run than there are, and a flooded part leaves some to
// the others.
func TestHandlersAreShared(t *testing.T) {
	t.Parallel()
	q := onShared(t, 4)
	flooded := q.parts[0].queue
	for range 5 {
		if _, err := flooded.WriteBatch(t.Context(), many(100, "flood", "flood2")...); err != nil {
			t.Fatal(err)
		}
	}
	var running, most atomic.Int64
	var quiet atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 3}, func(_ context.Context, m fairqueue.Message) error {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if m.Tenant == "quiet" {
				quiet.Add(1)
			}
			<-time.After(time.Millisecond)
			return nil
		})
	}()
	for i := range 12 {
		if _, err := q.parts[1+i%3].queue.Write(t.Context(), fairqueue.Draft{Tenant: "quiet"}); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "the quiet ones are served", func() bool { return quiet.Load() == 12 })
	if n, err := flooded.Len(t.Context()); err != nil || n == 0 {
		t.Errorf("the flood was over first: %d, %v", n, err)
	}
	redistest.Eventually(t, "all is handled", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Waiting+s.InFlight == 0
	})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("consume: %v", err)
	}
	if most.Load() != 3 {
		t.Errorf("%d handlers ran at once, of 3", most.Load())
	}
}

// TestAWorkerLeavesAllParts: a worker that leaves counts in none of them any more.
func TestAWorkerLeavesAllParts(t *testing.T) {
	t.Parallel()
	q := onShared(t, 3)
	for _, p := range q.parts {
		if _, err := p.queue.Write(t.Context(), fairqueue.Draft{Tenant: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	readers := func() (n int) {
		for _, p := range q.parts {
			s, err := p.queue.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += len(s.Readers) + len(s.Vanished)
		}
		return n
	}
	cfg := fairqueue.ReadConfig{Worker: "w", Concurrency: 6}
	if messages, err := q.Read(t.Context(), cfg); err != nil || len(messages) != 1 {
		t.Fatal(messages, err)
	}
	redistest.Eventually(t, "all parts know it", func() bool { return readers() == 3 })
	cfg.Leave = true
	if messages, err := q.Read(t.Context(), cfg); err != nil || len(messages) != 0 || readers() != 0 {
		t.Errorf("a worker that leaves has %d messages, %v, and %d readers", len(messages), err, readers())
	}
}
