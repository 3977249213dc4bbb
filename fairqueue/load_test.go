package fairqueue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// load writes messages with bodies of their own and counts how often each was
// handled.
type load struct {
	q       *Queue
	written atomic.Int64

	mu      sync.Mutex
	bodies  []string
	handled map[string]int
}

func newLoad(q *Queue) *load { return &load{q: q, handled: map[string]int{}} }

// produce writes from several goroutines until stop is called. It repeats a failed
// write with another body, since the first one may have been written.
func (l *load) produce(t *testing.T, writers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprint(w, "-", i)
				// One that was cancelled could arrive after the queue was drained.
				if _, err := l.q.Write(context.WithoutCancel(ctx), Draft{Tenant: fmt.Sprint("tenant", i%7), Body: []byte(body)}); err != nil {
					continue
				}
				l.mu.Lock()
				l.bodies = append(l.bodies, body)
				l.mu.Unlock()
				l.written.Add(1)
			}
		})
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			running.Wait()
		})
	}
	t.Cleanup(stop)
	return stop
}

func (l *load) handle(_ context.Context, m Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[string(m.Body)]++
	return nil
}

// after waits until n more messages were written, so that trouble falls into
// work.
func (l *load) after(t *testing.T, n int64) {
	t.Helper()
	goal := l.written.Load() + n
	redistest.Eventually(t, "more is written", func() bool { return l.written.Load() >= goal })
}

// check says which messages were handled never, or more often than most.
func (l *load) check(t *testing.T, most int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	twice := 0
	for _, body := range l.bodies {
		switch n := l.handled[body]; {
		case n == 0:
			t.Errorf("lost: %s", body)
		case n > most:
			t.Errorf("%s was handled %d times", body, n)
		case n > 1:
			twice++
		}
	}
	t.Logf("%d messages, %d of them handled more than once", len(l.bodies), twice)
}

// underLoad writes and consumes while trouble plays. No message may be lost, and
// none handled more often than most.
func underLoad(t *testing.T, client rueidis.Client, most int, trouble func(l *load)) {
	t.Helper()
	q := openOn(t, client, redistest.Name(t), Config{})
	l := newLoad(q)
	stopConsuming := consume(t, q, ConsumeConfig{Visibility: 2 * time.Second}, l.handle)
	stop := l.produce(t, 4)
	trouble(l)
	stop()
	drained(t, q)
	stopConsuming()
	l.check(t, most)
	wantSizes(t, q, 0, 0, 0, 0)
}

func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	underLoad(t, server.Client(t), 3, func(l *load) {
		for range 3 {
			l.after(t, 200)
			server.Kill()
			server.Restart()
		}
		l.after(t, 200)
	})
}

func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	underLoad(t, client, 1, func(l *load) {
		for range 20 {
			l.after(t, 50)
			if err := do(t, client, "SCRIPT", "FLUSH").Error(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLostRepliesUnderLoad loses twenty replies while writers and readers work.
func TestLostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	underLoad(t, proxy.Client(t), 1, func(l *load) {
		for range 20 {
			l.after(t, 20)
			lost := proxy.DropReply(evalsha)
			redistest.Eventually(t, "a reply is lost", func() bool { return lost.Count() == 1 })
		}
	})
}

// TestVisibilityOutlivesARestart: messages in flight stay so when the server
// comes back, and come again when their time is over.
func TestVisibilityOutlivesARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1 b:2")
	first := read(t, q, 1)[0]
	server.Kill()
	server.Restart()
	redistest.Eventually(t, "the server answers", func() bool { _, err := q.Len(t.Context()); return err == nil })
	wantSizes(t, q, 1, 1, 0, 0)
	ack(t, q, read(t, q, 10)...)
	if got := read(t, q, 10); len(got) != 0 {
		t.Fatalf("read %q while it is in flight", bodies(got))
	}
	good, err := q.Extend(t.Context(), minVisibility, first.Receipt)
	want(t, "extend", good, []bool{true}, err)
	again := eventually(t, q)
	if again.ID != first.ID || again.Attempt != 2 {
		t.Errorf("read = %+v, want %s at attempt 2", again, first.ID)
	}
}

// TestConsumerOutlivesTrouble with the connection and with the server.
func TestConsumerOutlivesTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	proxy := redistest.NewProxy(t, server.Addr())
	q := openOn(t, proxy.Client(t), "x", Config{})
	l := newLoad(q)
	consume(t, q, ConsumeConfig{Visibility: time.Second}, l.handle)
	for i, trouble := range []func(){
		proxy.Cut,
		func() { proxy.Refuse(true); proxy.Cut(); proxy.Refuse(false) },
		func() { server.Kill(); server.Restart() },
		func() { server.Pause(); server.Resume() },
		func() { do(t, server.Client(t), "FLUSHALL") },
		func() { do(t, server.Client(t), "CLIENT", "KILL", "TYPE", "normal") },
	} {
		trouble()
		body := fmt.Sprint("after trouble ", i)
		redistest.Eventually(t, "the server takes a message", func() bool {
			_, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte(body)})
			return err == nil
		})
		redistest.Eventually(t, body+": the message is handled", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.handled[body] > 0
		})
	}
}
