package conformance

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/observe/doctor"
	"github.com/millrace/millrace/pinned"
)

// lossFullMemory has writers fill a server behind a worker that is paused.
func lossFullMemory(t *testing.T, l *steady) {
	client := redistest.Start(t, redistest.Options{MaxMemory: "6mb"}).Client(t)
	l.pad = 8 << 10
	l.start(client, client)
	l.handles(60)
	l.pause()
	l.awaitCode("full")
	l.resume()
	l.handles(60)
	l.drain()
}

// evict has another program write keys until the server has evicted some, and reports whether any of a queue is among them.
func (l *steady) evict(t *testing.T, server *redistest.Server, client rueidis.Client, until func(evicted int) bool, script string) {
	t.Helper()
	redistest.Eventually(t, "the server evicts", func() bool {
		if err := client.Do(t.Context(), client.B().Eval().Script(script).Numkeys(0).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatalf("another program: %v", err)
		}
		evicted, err := strconv.Atoi(server.Info("stats")["evicted_keys"])
		must(t, "evicted_keys", err)
		return until(evicted)
	})
}

const (
	cacheWithTTL    = "for i = 1, 2000 do redis.call('SET', 'cache:' .. redis.call('INCR', 'cache'), string.rep('x', 200), 'EX', 3600) end"
	cacheWithoutTTL = "for i = 1, 2000 do redis.call('SET', 'cache:' .. redis.call('INCR', 'cache'), string.rep('x', 200)) end"
)

// hot is the key with the queue's messages.
func (l *steady) hot() string { return "mr:queue:{" + l.name + "}:hot" }

// lossEvicted has a cache take the memory of a queue whose worker stands still.
func lossEvicted(t *testing.T, l *steady) {
	server := redistest.Start(t, redistest.Options{MaxMemory: "6mb", Policy: "allkeys-lru"})
	client := server.Client(t)
	wantDoctor(t, client)
	l.start(client, client)
	l.backlog()
	l.stopWriting()
	l.evict(t, server, client, func(int) bool {
		there, err := client.Do(t.Context(), client.B().Exists().Key(l.hot()).Build()).AsBool()
		must(t, "EXISTS", err)
		return !there
	}, cacheWithoutTTL)
	// Calls are refused, unless the server has evicted all by which a queue is known: then one begins anew.
	known := client.B().Exists().Key("mr:queue:{" + l.name + "}")
	for _, part := range []string{"active", "backlog", "flight", "delayed", "dead", "dedupe"} {
		known = known.Key("mr:queue:{" + l.name + "}:" + part)
	}
	left, err := client.Do(t.Context(), known.Build()).AsInt64()
	must(t, "EXISTS", err)
	err = l.note(t.Context(), second(l.writer.Write(t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("new")})))
	if errors.Is(err, millrace.ErrBroken) != (left > 0) {
		t.Errorf("Write to a queue without its messages, of which %d keys are left: %v, want %v if there are any", left, err, millrace.ErrBroken)
	}
	l.resume()
	if left > 0 {
		redistest.Eventually(t, "the worker is refused, too", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.codes["broken"] > 1
		})
	}
	l.end()
}

// wantDoctor checks that the doctor says that the server evicts.
func wantDoctor(t *testing.T, client rueidis.Client) {
	t.Helper()
	report, err := doctor.Examine(t.Context(), client, doctor.Config{})
	must(t, "Examine", err)
	for _, findings := range report.Parts() {
		for _, f := range findings {
			if f.Check == "eviction" && f.Severity == doctor.Critical {
				return
			}
		}
	}
	t.Errorf("the doctor does not say that the server evicts: %+v", report)
}

// lossVolatile has a cache with TTLs beside the queue.
func lossVolatile(t *testing.T, l *steady) {
	server := redistest.Start(t, redistest.Options{MaxMemory: "6mb", Policy: "volatile-lru"})
	client := server.Client(t)
	l.start(client, client)
	l.backlog()
	l.evict(t, server, client, func(evicted int) bool { return evicted > 10_000 }, cacheWithTTL)
	l.resume()
	l.handles(60)
	l.drain()
}

// lossPolicyChanged sets allkeys-lru while programs run. New users of leases are refused at once; a queue does not check.
func lossPolicyChanged(t *testing.T, l *steady) {
	server := redistest.Start(t, redistest.Options{MaxMemory: "100mb"})
	client := server.Client(t)
	l.start(client, client)
	l.backlog()
	configure(t, server, "maxmemory-policy", "allkeys-lru")
	wantDoctor(t, client)
	other := server.Client(t) // of a program that starts now
	locker, err := lease.New(other, lease.Config{})
	must(t, "lease.New", err)
	_, leases := locker.Acquire(t.Context(), l.name, time.Minute, lease.AcquireConfig{})
	_, hashes := expiry.Open(t.Context(), other, l.name, expiry.Config{})
	_, values := pinned.Open(t.Context(), other, l.name, pinned.Config{})
	for _, err := range []error{leases, hashes, values} {
		wantError(t, "a call that relies on the policy", err, millrace.ErrEvictable)
	}
	configure(t, server, "maxmemory-policy", "noeviction")
	l.resume()
	l.handles(60)
	l.drain()
}

// mistake plays what an operator does while messages wait and one is in the worker's hands.
func mistake(do func(t *testing.T, l *steady, client rueidis.Client)) func(t *testing.T, l *steady) {
	return func(t *testing.T, l *steady) {
		t.Helper()
		client := redistest.Start(t, redistest.Options{}).Client(t)
		l.start(client, client)
		l.backlog()
		m := dequeue(t, l.queue, 1)[0]
		id := l.begin(m)
		do(t, l, client)
		l.acknowledge(t.Context(), m, id)
		l.resume()
		l.handles(60)
		l.drain()
	}
}

func command(words ...string) func(t *testing.T, l *steady, client rueidis.Client) {
	return func(t *testing.T, _ *steady, client rueidis.Client) {
		t.Helper()
		must(t, words[0], client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error())
	}
}

// lossFlushall also loses a mark of a dirty list and a lease, which has a second holder.
var lossFlushall = mistake(func(t *testing.T, l *steady, client rueidis.Client) {
	t.Helper()
	marks := openIck(t, client, l.name)
	must(t, "AddNow", second(marks.AddNow(t.Context(), "x")))
	lossLease(t, client, l.name, "first")
	command("FLUSHALL")(t, l, client)
	r, err := marks.Reserve(t.Context(), 1)
	want(t, "marks", len(r.Members()), 0, err)
	lossLease(t, client, l.name, "second")
})

// lossDeletedKey deletes one key of the queue. Each call is refused until the queue is deleted as a whole.
var lossDeletedKey = mistake(func(t *testing.T, l *steady, client rueidis.Client) {
	t.Helper()
	n, err := client.Do(t.Context(), client.B().Del().Key(l.hot()).Build()).AsInt64()
	want(t, "DEL", n, int64(1), err)
	l.awaitCode("broken")
	must(t, "Delete", second(l.queue.Delete(t.Context())))
})

var lossDeletedQueue = mistake(func(t *testing.T, l *steady, _ rueidis.Client) {
	t.Helper()
	must(t, "Delete", second(l.queue.Delete(t.Context())))
})

// lossPurged purges messages that died. One that was redriven before is handled.
var lossPurged = mistake(func(t *testing.T, l *steady, _ rueidis.Client) {
	t.Helper()
	var ids []string
	for _, m := range dequeue(t, l.queue, 10) {
		must(t, "Nack", second(l.queue.Nack(t.Context(), fairqueue.NackConfig{Dead: true}, m.Receipt)))
		ids = append(ids, m.ID)
	}
	must(t, "Redrive", second(l.queue.Dead().Redrive(t.Context(), ids[0])))
	must(t, "Purge", second(l.queue.Dead().Purge(t.Context(), ids[1:]...)))
})
