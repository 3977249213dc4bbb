package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// blockedReaders waits until so many processes sleep on the server.
func blockedReaders(t *testing.T, server *redistest.Server, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprint(n, " readers sleep"), func() bool {
		return server.Info("clients")["blocked_clients"] == fmt.Sprint(n)
	})
}

// commands counts a server's calls of these commands so far.
func commands(t *testing.T, server *redistest.Server, names ...string) (total int) {
	t.Helper()
	stats := server.Info("commandstats")
	for _, name := range names {
		var n int
		if line := stats["cmdstat_"+name]; line != "" {
			if _, err := fmt.Sscanf(line, "calls=%d,", &n); err != nil {
				t.Fatal(err)
			}
		}
		total += n
	}
	return total
}

// TestWriteWakesAReader within milliseconds.
func TestWriteWakesAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	reader, writer := openOn(t, server.Client(t), "x", Config{}), openOn(t, server.Client(t), "x", Config{})
	write(t, writer, "a:first")
	ack(t, writer, read(t, writer, 1)...)
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
	writer := openOn(t, server.Client(t), "x", Config{})
	write(t, writer, "a:first")
	ack(t, writer, read(t, writer, 1)...)
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
	pushed := commands(t, server, "lpush")
	start := time.Now()
	for i := range 3 {
		write(t, writer, fmt.Sprintf("tenant%d:x", i))
	}
	redistest.Eventually(t, "three messages are taken", func() bool { return got.Load() == 3 })
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("three messages were taken after %v, want each to wake a reader", took)
	}
	want(t, "readers that ended", ended.Load(), int64(3), nil)
	if n := commands(t, server, "lpush") - pushed; n < 1 || n > 3 {
		t.Errorf("%d wake-ups were sent for three messages", n)
	}
	cancel()
	redistest.Eventually(t, "the others end", func() bool { return ended.Load() == 6 })
}

// TestMessagesWakeNoMoreReadersThanSleep: m messages wake as many processes as sleep, and
// no more than there are messages.
func TestMessagesWakeNoMoreReadersThanSleep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	writer := openOn(t, server.Client(t), "x", Config{})
	write(t, writer, "a:first")
	ack(t, writer, read(t, writer, 1)...)
	// No reader takes tokens here, so that they can be counted, but those of the first write,
	// which woke readers that may have waited for a queue.
	do(t, writer.run.Client, "DEL", baseKey("x")+":wake")
	sleep := func(n int) {
		for range n {
			reply, err := writer.run.Run(t.Context(), "work", baseKey("x"), "r", "1", "1000", "0", "1", "12345678")
			if err != nil || reply.None() {
				t.Fatal(err)
			}
		}
	}
	tokens := func() int64 {
		n, err := do(t, writer.run.Client, "LLEN", baseKey("x")+":wake").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		do(t, writer.run.Client, "DEL", baseKey("x")+":wake")
		ack(t, writer, read(t, writer, 1000)...)
		return n
	}
	for _, tt := range []struct{ sleepers, messages, woken int }{{0, 3, 0}, {2, 1, 1}, {1, 5, 2}, {3, 3, 3}, {70, 64, 64}} {
		sleep(tt.sleepers)
		write(t, writer, strings.Repeat("a:x ", tt.messages))
		want(t, fmt.Sprintf("woken of %+v", tt), tokens(), int64(tt.woken), nil)
	}
}

// TestAWriteThatWakesNobodyPaysNothing for it: no command that has to do with waking.
func TestAWriteThatWakesNobodyPaysNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:first")
	ack(t, q, read(t, q, 1)...)
	names := []string{"lpush", "pexpire", "publish"}
	before := commands(t, server, names...)
	for range 20 {
		write(t, q, "a:x")
		ack(t, q, read(t, q, 1)...)
	}
	want(t, "commands that wake", commands(t, server, names...)-before, 0, nil)
}

// TestStaleToken: a token that remains of a message that a reader took without waiting
// does not end a block early.
func TestStaleToken(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	ack(t, q, read(t, q, 1)...)
	if err := do(t, q.run.Client, "LPUSH", baseKey(q.name)+":wake", "1").Error(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := q.Read(t.Context(), ReadConfig{Block: time.Second})
	wantError(t, err, ErrEmpty)
	if took := time.Since(start); took < time.Second {
		t.Errorf("a block of a second ended after %v", took)
	}
}

// TestDeadWokenReader: a reader takes the token and dies; another reader finds
// the message, since no reader blocks for ever before it looks.
func TestDeadWokenReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	q.run.Scripts = scripttest.Without(t, scripttest.Without(t, library, "redis.pcall('LPUSH', prefix .. 'wake', unpack(tokens))", ""),
		"redis.pcall('LPUSH', prefix .. 'wake', '1')", "")
	write(t, q, "a:first")
	ack(t, q, read(t, q, 1)...)
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	blockedReaders(t, server, 1)
	write(t, q, "a:x")
	<-got
}

// TestCancelledReadersReturn without an answer of the server, and messages that come afterwards
// are for others.
func TestCancelledReadersReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 5)
	for range 5 {
		go func() {
			_, err := q.Read(ctx, ReadConfig{Block: -1})
			ended <- err
		}()
	}
	blockedReaders(t, server, 1)
	server.Pause()
	cancel()
	redistest.Eventually(t, "all have returned", func() bool { return len(ended) == cap(ended) })
	for range 5 {
		wantError(t, <-ended, context.Canceled)
	}
	server.Resume()
	blockedReaders(t, server, 0)
	write(t, q, "a:x")
	if m := read(t, q, 1); len(m) != 1 || m[0].Attempt != 1 {
		t.Errorf("read = %+v, want the message at its first attempt", m)
	}
}

// TestGoneReadersMessageIsHandedBack: a message that a shared read takes for a reader that
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
	if c := stats(t, q).Counters; c.Delivered != 2 || c.Returned != 1 {
		t.Errorf("counters = %+v, want two deliveries, or this shows nothing", c)
	}
}

// TestIdleProcessIsQuiet: two commands a second, however many goroutines wait and through
// however many Queues.
func TestIdleProcessIsQuiet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q := openOn(t, client, "x", Config{})
	write(t, q, "a:x")
	ack(t, q, read(t, q, 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	for i := range 20 {
		mine := openOn(t, client, "x", Config{})
		go func() {
			if i%4 == 0 {
				ended <- mine.Consume(ctx, ConsumeConfig{Concurrency: 3}, func(context.Context, Message) error { return nil })
				return
			}
			_, err := mine.Read(ctx, ReadConfig{Block: -1, Max: 1 + i%3})
			ended <- err
		}()
	}
	blockedReaders(t, server, 1)
	names := []string{"evalsha", "blpop", "brpop"}
	first := commands(t, server, names...)
	redistest.Eventually(t, "all have asked", func() bool { return commands(t, server, names...) > first+2 })
	before, start := commands(t, server, names...), time.Now()
	redistest.Eventually(t, "three rounds", func() bool { return commands(t, server, names...) >= before+6 })
	if perSecond := 6 / time.Since(start).Seconds(); perSecond > 3.5 { // two, and what five consumers say of themselves
		t.Errorf("an idle process sends %.1f commands a second, more than 2 and the beats", perSecond)
	}
	cancel()
	for range 20 {
		<-ended
	}
}
