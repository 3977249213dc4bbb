package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// blockedReaders waits until so many processes sleep on the server.
func blockedReaders(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprint(n, " readers sleep"), func() bool {
		return server.Info("clients")["blocked_clients"] == fmt.Sprint(n)
	})
}

// TestWriteWakesAReader within milliseconds, and an idle queue wakes nobody.
func TestWriteWakesAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	reader, writer := openOn(t, server.Client(t), "x", Config{}), openOn(t, server.Client(t), "x", Config{})
	best := time.Hour
	for range 5 {
		got := make(chan Message)
		go func() { got <- eventually(t, reader) }()
		blockedReaders(t, server, 1)
		start := time.Now()
		write(t, writer, "a:x")
		ack(t, reader, <-got)
		best = min(best, time.Since(start))
	}
	if best > 500*time.Millisecond {
		t.Errorf("the quickest pickup took %v: the reader polled and was not woken", best)
	}
}

// TestEachMessageWakesAReader: with three processes asleep, each with two
// readers, three messages written one after the other are taken at once, all
// three, and three readers go on sleeping.
func TestEachMessageWakesAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got, ended atomic.Int64
	for range 3 {
		q := openOn(t, server.Client(t), "x", Config{})
		for range 2 {
			go func() {
				messages, err := q.Read(ctx, ReadConfig{Block: -1})
				if err == nil {
					got.Add(int64(len(messages)))
				}
				ended.Add(1)
			}()
		}
	}
	blockedReaders(t, server, 3)
	writer := openOn(t, server.Client(t), "x", Config{})
	start := time.Now()
	for i := range 3 {
		write(t, writer, fmt.Sprintf("tenant%d:x", i))
	}
	redistest.Eventually(t, "three messages are taken", func() bool { return got.Load() == 3 })
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("three messages were taken after %v, want each to wake a reader", took)
	}
	if n := ended.Load(); n != 3 {
		t.Errorf("%d readers ended, want the others to sleep on", n)
	}
	cancel()
	redistest.Eventually(t, "the others end", func() bool { return ended.Load() == 6 })
}

// TestStaleNotification: a token that is left of a message which somebody took
// without waiting does not end a block early.
func TestStaleNotification(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	ack(t, q, read(t, q, 1)...)
	if n, err := do(t, q.run.Client, "LLEN", baseKey(q.name)+":wake").AsInt64(); err != nil || n != 0 {
		t.Errorf("tokens of an empty queue = %d, %v, want none", n, err)
	}
	if err := do(t, q.run.Client, "LPUSH", baseKey(q.name)+":wake", "1").Error(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := q.Read(t.Context(), ReadConfig{Block: 200 * time.Millisecond})
	wantError(t, err, ErrEmpty)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("a block of 200 ms ended after %v", took)
	}
}

// TestDeadWokenReader: somebody takes the token and dies; another reader finds
// the message within a second or so.
func TestDeadWokenReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	q.run.Scripts = scripttest.Without(t, library, "redis.pcall('LPUSH', wake, unpack(tokens))", "")
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	blockedReaders(t, server, 1)
	start := time.Now()
	write(t, q, "a:x")
	<-got
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Errorf("the message was found after %v, want within about a second", took)
	}
}

// TestDelayedWriteRearmsAReader that sleeps for longer than the delay.
func TestDelayedWriteRearmsAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	best := time.Hour
	for range 3 {
		got := make(chan Message)
		go func() { got <- eventually(t, q) }()
		blockedReaders(t, server, 1)
		start := time.Now()
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: 50 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		ack(t, q, <-got)
		best = min(best, time.Since(start))
	}
	if best < 50*time.Millisecond || best > 400*time.Millisecond {
		t.Errorf("the quickest pickup of a message due in 50 ms took %v", best)
	}
}

// TestCancelledReadersReturn at once, and what comes afterwards is for others.
func TestCancelledReadersReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 5 {
		go func() {
			_, err := q.Read(ctx, ReadConfig{Block: -1})
			ended <- err
		}()
	}
	blockedReaders(t, server, 1)
	start := time.Now()
	cancel()
	for range 5 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Read = %v, want context.Canceled", err)
		}
	}
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("cancelled readers returned after %v", took)
	}
	blockedReaders(t, server, 0)
	write(t, q, "a:x")
	if m := read(t, q, 1); len(m) != 1 || m[0].Attempt != 1 {
		t.Errorf("read = %+v, want the message at its first attempt", m)
	}
}

// TestGoneReadersMessageIsHandedBack: what a shared read brings for a reader that
// has gone meanwhile comes again at once, without counting as an attempt.
func TestGoneReadersMessageIsHandedBack(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	q := openOn(t, proxy.Client(t), redistest.Name(t), Config{})
	write(t, q, "a:x")
	direct := openOn(t, redistest.Shared(t).Client(t), q.name, Config{})
	proxy.Delay(200 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := q.Read(ctx, ReadConfig{Visibility: time.Hour})
		ended <- err
	}()
	redistest.Eventually(t, "the message is on its way", func() bool { return stats(t, direct).InFlight == 1 })
	cancel()
	wantError(t, <-ended, context.Canceled)
	proxy.Heal()
	if m := eventually(t, q); m.Attempt != 1 {
		t.Errorf("attempt = %d, want 1", m.Attempt)
	}
	if c := stats(t, q).Counters; c.Delivered != 2 {
		t.Errorf("counters = %+v, want two deliveries, or this shows nothing", c)
	}
}

// TestIdleReaderIsQuiet counts the commands of ten readers in one process, each
// under a name of its own.
func TestIdleReaderIsQuiet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:x")
	ack(t, q, read(t, q, 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	for i := range 10 {
		go func() {
			_, err := q.Read(ctx, ReadConfig{Block: -1, Consumer: fmt.Sprint("reader ", i)})
			ended <- err
		}()
	}
	blockedReaders(t, server, 1)
	count := func() (total int) {
		for name, line := range server.Info("commandstats") {
			var n int
			if _, err := fmt.Sscanf(line, "calls=%d,", &n); err != nil {
				t.Fatal(err)
			}
			switch strings.TrimPrefix(name, "cmdstat_") {
			case "evalsha", "blpop":
				total += n
			}
		}
		return total
	}
	before, start := count(), time.Now()
	redistest.Eventually(t, "three rounds", func() bool { return count() >= before+6 })
	if perSecond := 6 / time.Since(start).Seconds(); perSecond > 2.2 {
		t.Errorf("an idle process sends %.1f commands a second, more than 2", perSecond)
	}
	cancel()
	for range 10 {
		<-ended
	}
}
