package hub_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/hub"
	"github.com/millrace/millrace/internal/test/redistest"
)

// waits has a waiter wait in the background.
func waits(ctx context.Context, w *hub.Waiter) <-chan bool {
	done := make(chan bool, 1)
	go func() { done <- w.Wait(ctx, time.Hour) }()
	return done
}

func wantWoken(t *testing.T, woken <-chan bool) {
	t.Helper()
	select {
	case ok := <-woken:
		if !ok {
			t.Error("the wait ended, but not by a wake-up")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter is not woken")
	}
}

func wantAsleep(t *testing.T, woken ...<-chan bool) {
	t.Helper()
	for i, w := range woken {
		select {
		case <-w:
			t.Errorf("waiter %d is woken", i)
		default:
		}
	}
}

// TestHub: all waiters in a process share one blocking command, and another process wakes
// them by name.
func TestHub(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	mine, other := hub.Of(client, nil), hub.Of(server.Client(t), nil)
	if hub.Of(client, nil) != mine || mine.ID() == other.ID() {
		t.Error("a client has two hubs, or two clients have one")
	}
	const names = 500
	blocked := func(n string) func() bool {
		return func() bool { return server.Info("clients")["blocked_clients"] == n }
	}
	name := func(i int) string { return fmt.Sprint("name", i) }
	var waiters []*hub.Waiter
	var woken []<-chan bool
	for i := range names {
		waiters = append(waiters, mine.Join(name(i), i%2 == 0))
		woken = append(woken, waits(t.Context(), waiters[i]))
	}
	redistest.Eventually(t, "it blocks", blocked("1"))
	for i := range names - 1 {
		other.Wake(t.Context(), name(i), []string{mine.ID(), "nobody"})
	}
	for i := range names - 1 {
		wantWoken(t, woken[i])
	}
	wantAsleep(t, woken[names-1])
	if got := server.Info("clients")["blocked_clients"]; got != "1" && got != "0" { // 0 between two rounds
		t.Errorf("%s connections block, want one", got)
	}
	mine.Wake(t.Context(), name(names-1), []string{mine.ID()}) // in the same process
	wantWoken(t, woken[names-1])
	for _, w := range waiters {
		w.Leave(true)
	}
	redistest.Eventually(t, "nobody blocks any more", blocked("0"))
}

// TestWakeBeforeTheWait: a wake-up between a question to Redis and the wait is not missed,
// whether it comes before the hub blocks or is taken before the waiter waits.
func TestWakeBeforeTheWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	mine, other := hub.Of(server.Client(t), nil), hub.Of(server.Client(t), nil)
	for _, from := range []*hub.Hub{other, mine} { // the hub itself needs no list
		w := mine.Join("x", false)
		from.Wake(t.Context(), "x", []string{mine.ID()})
		wantWoken(t, waits(t.Context(), w))
		w.Leave(true)
	}
}

// TestWhoIsWoken: a wake-up wakes all watchers, and one of the waiters for something that only
// one can have. A waiter that leaves without using its wake-up passes it to the next.
func TestWhoIsWoken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	mine := hub.Of(server.Client(t), nil)
	var takers, watchers []*hub.Waiter
	var take, watch []<-chan bool
	for i := range 3 {
		takers, watchers = append(takers, mine.Join("x", false)), append(watchers, mine.Join("x", true))
		take, watch = append(take, waits(t.Context(), takers[i])), append(watch, waits(t.Context(), watchers[i]))
	}
	notify := func() { mine.Wake(t.Context(), "x", []string{mine.ID()}) }
	notify()
	for _, w := range watch {
		wantWoken(t, w)
	}
	wantWoken(t, take[0])
	wantAsleep(t, take[1:]...)
	takers[0].Leave(false)
	wantWoken(t, take[1])
	wantAsleep(t, take[2])
	takers[1].Leave(true)
	notify()
	wantWoken(t, take[2])
	for _, w := range append(watchers, takers[2]) {
		w.Leave(true)
	}
	last, next := mine.Join("x", false), mine.Join("x", false)
	notify()
	last.Leave(false) // before it noticed
	wantWoken(t, waits(t.Context(), next))
	next.Leave(true)
}

// TestCancelledWaiters return within 50 ms, also when the server hangs.
func TestCancelledWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	mine := hub.Of(server.Client(t), nil)
	w := mine.Join("x", false)
	defer w.Leave(true)
	server.Pause()
	defer server.Resume()
	best := time.Hour
	for range 5 { // a busy machine may delay some
		ctx, cancel := context.WithCancel(t.Context())
		woken := waits(ctx, w)
		cancelled := time.Now()
		cancel()
		if <-woken {
			t.Error("woken by nobody")
		}
		best = min(best, time.Since(cancelled))
	}
	if best > 50*time.Millisecond {
		t.Errorf("a cancelled wait took %v", best)
	}
}

// TestListOfADeadProcess leaves by itself and is bounded, also on a full server.
func TestListOfADeadProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	mine := hub.Of(client, nil)
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for j := range 100 {
				mine.Wake(t.Context(), fmt.Sprint(i, "/", j), []string{"dead"})
			}
		})
	}
	all.Wait()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("mr:wake:*").Build()).AsStrSlice()
	if err != nil || len(keys) != 1 || !strings.HasSuffix(keys[0], "}:dead") {
		t.Fatalf("keys = %q, %v, want the list of one process", keys, err)
	}
	names, err := client.Do(t.Context(), client.B().Llen().Key(keys[0]).Build()).AsInt64()
	if err != nil || names != 4096 {
		t.Errorf("%d names, %v, want 4096", names, err)
	}
	if ttl, err := client.Do(t.Context(), client.B().Pttl().Key(keys[0]).Build()).AsInt64(); err != nil || ttl <= 0 || ttl > 10_000 {
		t.Errorf("TTL = %d ms, %v, want ten seconds at most", ttl, err)
	}
}

// TestRefused: in a process without permission to block, waits end by their timeout, and the
// refusal is logged once.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	admin := server.Client(t)
	acl := admin.B().Arbitrary("ACL", "SETUSER", "u", "on", ">p", "~other:*", "+@all").Build()
	if err := admin.Do(t.Context(), acl).Error(); err != nil {
		t.Fatal(err)
	}
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "p" })
	var log redistest.Log
	mine := hub.Of(client, slog.New(slog.NewTextHandler(&log, nil)))
	w := mine.Join("x", false)
	defer w.Leave(true)
	for range 3 {
		if w.Wait(t.Context(), 300*time.Millisecond) {
			t.Error("woken by nobody")
		}
	}
	if got := log.Count("mr:wake:*"); got != 1 {
		t.Errorf("logged %d times, want once", got)
	}
}
