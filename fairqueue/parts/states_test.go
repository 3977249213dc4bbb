package parts

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// ail has four parts, each on a server behind a proxy; the first one ails.
type ail struct {
	q      *Queue
	server *redistest.Server
	proxy  *redistest.Proxy
}

func newAil(t *testing.T, timeout time.Duration) *ail {
	t.Helper()
	a := &ail{}
	var clients []rueidis.Client
	for i := range 4 {
		s := redistest.Start(t, redistest.Options{})
		proxy := redistest.NewProxy(t, s.Addr())
		if clients = append(clients, proxy.Client(t)); i == 0 {
			a.server, a.proxy = s, proxy
		}
	}
	a.q = mustNew(t, Config{Parts: Across("jobs", clients...), Timeout: timeout})
	return a
}

// put writes a message to a part.
func (a *ail) put(t *testing.T, part int, body string) {
	t.Helper()
	if _, err := a.q.parts[part].queue.Write(t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

// read reads and acknowledges a message, and returns it with the time that the read took.
func (a *ail) read(t *testing.T, block time.Duration) (body string, took time.Duration, err error) {
	t.Helper()
	start := time.Now()
	messages, err := a.q.Read(t.Context(), fairqueue.ReadConfig{Block: block})
	took = time.Since(start)
	if err != nil {
		return "", took, err
	}
	if n, err := a.q.Ack(t.Context(), messages[0].Receipt); n != 1 || err != nil {
		t.Fatalf("Ack = %d, %v, want 1", n, err)
	}
	return string(messages[0].Body), took, nil
}

// fill makes the server full, or gives it room.
func (a *ail) fill(t *testing.T, bytes string) {
	t.Helper()
	client := a.server.Client(t)
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", bytes).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// tenant returns a tenant of the first part.
func (a *ail) tenant(t *testing.T) string {
	t.Helper()
	for _, tenant := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		if slices.Contains(a.q.PartsOf(tenant), 0) {
			return tenant
		}
	}
	t.Fatal("no tenant has the first part")
	return ""
}

// TestFullPartIsRead: a part on a full server takes no messages, and is read and drained.
func TestFullPartIsRead(t *testing.T) {
	t.Parallel()
	a := newAil(t, time.Second)
	a.put(t, 0, "1")
	a.put(t, 0, "2")
	a.fill(t, "1")
	tenant := a.tenant(t)
	for range 20 {
		if _, err := a.q.Write(t.Context(), fairqueue.Draft{Tenant: tenant, Body: []byte("other")}); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, "the full part is found", func() bool {
		_, err := a.q.Write(t.Context(), fairqueue.Draft{Tenant: tenant, Body: []byte("other")})
		now, _ := a.q.parts[0].look()
		return err == nil && now == full
	})
	left := map[string]bool{"1": true, "2": true}
	for i := 0; len(left) > 0 && i < 100; i++ {
		body, _, err := a.read(t, 0)
		if err != nil {
			t.Fatalf("read: %v, with %v left in the full part", err, left)
		}
		delete(left, body)
	}
	if len(left) > 0 {
		t.Fatalf("%v of the full part are not read", left)
	}
	if now, _ := a.q.parts[0].look(); now != full {
		t.Errorf("the part is in state %d after a read, want %d, full", now, full)
	}
	a.fill(t, "0")
	redistest.Eventually(t, "it takes messages again", func() bool { now, _ := a.q.parts[0].look(); return now == open })
}

// TestFrozenPartSlowsNoRead: reads find the messages of the others, with a Block and without, while a part does not
// answer, from the first read on. A read that finds nothing ends with its Block. When the part answers again, its
// messages come.
func TestFrozenPartSlowsNoRead(t *testing.T) {
	t.Parallel()
	const timeout, most = 5 * time.Second, 2500 * time.Millisecond
	a := newAil(t, timeout)
	a.put(t, 0, "frozen")
	a.server.Pause()
	for i := range 3 * len(a.q.parts) {
		a.put(t, 1+i%3, "other")
		body, took, err := a.read(t, time.Duration(i%2)*time.Minute)
		if err != nil || body != "other" || took > most {
			t.Fatalf("read %d = %q, %v after %s, want the other part's within %s", i, body, err, took, most)
		}
	}
	_, took, err := a.read(t, 300*time.Millisecond)
	if !errors.Is(err, fairqueue.ErrEmpty) || took > most {
		t.Errorf("a read with a Block of 300 ms = %v after %s, want %v within %s", err, took, fairqueue.ErrEmpty, most)
	}
	for closed := false; !closed; { // reads alone find out that it does not answer
		if _, _, err := a.read(t, 0); !errors.Is(err, fairqueue.ErrEmpty) {
			t.Fatalf("read = %v, want %v", err, fairqueue.ErrEmpty)
		}
		now, _ := a.q.parts[0].look()
		closed = now == silent
	}
	if _, took, err := a.read(t, 0); !errors.Is(err, fairqueue.ErrEmpty) || took > most {
		t.Errorf("a read = %v after %s, want %v within %s", err, took, fairqueue.ErrEmpty, most)
	}
	a.server.Resume()
	if body, _, err := a.read(t, time.Minute); err != nil || body != "frozen" {
		t.Errorf("read = %q, %v, want the frozen part's", body, err)
	}
}

// TestAllPartsAreSilent: a read ends with its Block, and not as if there were no messages.
func TestAllPartsAreSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := mustNew(t, Config{Parts: On(server.Client(t), "jobs", 3)})
	server.Pause()
	for _, block := range []time.Duration{300 * time.Millisecond, 0, 300 * time.Millisecond, 0} {
		start := time.Now()
		_, err := q.Read(t.Context(), fairqueue.ReadConfig{Block: block})
		if took := time.Since(start); err == nil || errors.Is(err, fairqueue.ErrEmpty) || took > 4*time.Second {
			t.Errorf("a read with a Block of %s = %v after %s, want that nothing answers", block, err, took)
		}
	}
	server.Resume()
}

// TestSlowPartIsRead: a part whose answers take long is read beside parts that always have messages.
func TestSlowPartIsRead(t *testing.T) {
	t.Parallel()
	a := newAil(t, 5*time.Second)
	a.put(t, 0, "slow")
	a.proxy.Delay(200 * time.Millisecond)
	redistest.Eventually(t, "the slow part is read", func() bool {
		for part := 1; part < 4; part++ {
			a.put(t, part, "other")
		}
		body, _, err := a.read(t, 0)
		if err != nil {
			t.Fatal(err)
		}
		return body == "slow"
	})
}

// TestPartIsGone: while nothing listens, the others are read and written, and its messages come when it is back.
func TestPartIsGone(t *testing.T) {
	t.Parallel()
	q, list := servers(t, 4, nil)
	a := &ail{q: q, server: list[0]}
	a.put(t, 0, "gone")
	a.server.Kill()
	for i := range 12 {
		a.put(t, 1+i%3, "other")
		if body, took, err := a.read(t, time.Second); err != nil || body != "other" || took > 3*time.Second {
			t.Fatalf("read %d = %q, %v after %s, want the other part's", i, body, err, took)
		}
	}
	if _, _, err := a.read(t, 300*time.Millisecond); !errors.Is(err, fairqueue.ErrEmpty) {
		t.Errorf("read = %v, want %v", err, fairqueue.ErrEmpty)
	}
	a.server.Restart()
	if body, _, err := a.read(t, time.Minute); err != nil || body != "gone" {
		t.Errorf("read = %q, %v, want that of the part that is back", body, err)
	}
}

// TestPartIsBackWithOlderData: it is read and written like before; receipts from before are stale, and messages
// that its server has lost do not come.
func TestPartIsBackWithOlderData(t *testing.T) {
	t.Parallel()
	a := newAil(t, time.Second)
	a.put(t, 0, "lost")
	a.put(t, 0, "held")
	held, err := a.q.Read(t.Context(), fairqueue.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	a.server.Kill()
	a.server.Restart() // without an append-only file
	redistest.Eventually(t, "the part answers", func() bool { _, err := a.q.Len(t.Context()); return err == nil })
	if n, err := a.q.Ack(t.Context(), held[0].Receipt); n != 0 || !errors.Is(err, millrace.ErrStale) {
		t.Errorf("Ack = %d, %v, want %v", n, err, millrace.ErrStale)
	}
	if _, _, err := a.read(t, 300*time.Millisecond); !errors.Is(err, fairqueue.ErrEmpty) {
		t.Errorf("read = %v, want %v", err, fairqueue.ErrEmpty)
	}
	a.put(t, 0, "new")
	if body, _, err := a.read(t, time.Minute); err != nil || body != "new" {
		t.Errorf("read = %q, %v, want the new message", body, err)
	}
}

// TestCancelledReadReturns at once, whatever the parts do. It finds a part silent all the same.
func TestCancelledReadReturns(t *testing.T) {
	t.Parallel()
	a := newAil(t, time.Second)
	a.q.parts[0].looking = true // so no look does
	a.server.Pause()
	for i := range 2 * len(a.q.parts) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		ended := make(chan error, 1)
		go func() {
			_, err := a.q.Read(ctx, fairqueue.ReadConfig{Block: []time.Duration{-1, time.Minute}[i%2]})
			ended <- err
		}()
		cancel(cause)
		start := time.Now()
		if err := <-ended; !errors.Is(err, cause) || time.Since(start) > 5*time.Second {
			t.Errorf("read = %v after %s, want %v", err, time.Since(start), cause)
		}
	}
	redistest.Eventually(t, "the part is found silent", func() bool {
		a.q.parts[0].mu.Lock()
		defer a.q.parts[0].mu.Unlock()
		return a.q.parts[0].state == silent && errors.Is(a.q.parts[0].failure, context.DeadlineExceeded)
	})
	a.server.Resume()
}

// TestStatsBesideAFrozenPart: Stats returns the other parts, and that one did not answer, within the Timeout.
func TestStatsBesideAFrozenPart(t *testing.T) {
	t.Parallel()
	a := newAil(t, 500*time.Millisecond)
	for part := range 4 {
		a.put(t, part, "x")
	}
	a.server.Pause()
	start := time.Now()
	s, err := a.q.Stats(t.Context())
	if !errors.Is(err, millrace.ErrPartial) || s.Waiting != 3 || s.Parts[0].Err == nil {
		t.Errorf("Stats = %d waiting, %v, part 0 %v; want 3 and %v", s.Waiting, err, s.Parts[0].Err, millrace.ErrPartial)
	}
	if n, err := a.q.Len(t.Context()); n != 3 || !errors.Is(err, millrace.ErrPartial) {
		t.Errorf("Len = %d, %v, want 3 and %v", n, err, millrace.ErrPartial)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("both took %s, want about a second", took)
	}
	a.server.Resume()
}

// TestFullPartIsConsumed, too.
func TestFullPartIsConsumed(t *testing.T) {
	t.Parallel()
	a := newAil(t, time.Second)
	for part := range 4 {
		a.put(t, part, "x")
	}
	a.fill(t, "1")
	handled := make(chan bool)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 2}, func(context.Context, fairqueue.Message) error {
			handled <- true
			return nil
		})
	}()
	for range 4 {
		<-handled
	}
	redistest.Eventually(t, "all are settled", func() bool {
		s, err := a.q.Stats(t.Context())
		return err == nil && s.Waiting+s.InFlight == 0
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, fairqueue.ErrUnsettled) {
		t.Errorf("Consume = %v, want %v", err, context.Canceled)
	}
}
