package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// post writes messages to a queue and handles them. Each that was written must be handled,
// once, and none may be left.
type post struct {
	tally

	queue   *fairqueue.Queue
	most    int // messages of a tenant in flight; 0 for no limit
	mu      sync.Mutex
	flying  map[string]int  // deliveries whose end is not on its way, by tenant
	written map[string]bool // ids
	come    map[string]bool // deliveries: an id and which one
	handled map[string]int  // how often, by id
}

// newPost returns a queue that exists: one that does not would wait for its slot.
func newPost(t *testing.T, q *fairqueue.Queue) *post {
	t.Helper()
	p := &post{queue: q, written: map[string]bool{}, come: map[string]bool{}, handled: map[string]int{}, flying: map[string]int{}}
	p.write(t.Context(), t, fairqueue.Draft{Tenant: "first"})
	return p
}

// newLimitedPost returns a queue in which each tenant has limits.
func newLimitedPost(t *testing.T, q *fairqueue.Queue) *post {
	t.Helper()
	const most = 3
	if err := q.Limits().Set(t.Context(), "", fairqueue.OwnLimits{MaxInFlight: new(most), Rate: new(1000.0), Weight: new(2.0)}); err != nil {
		t.Fatal(err)
	}
	p := newPost(t, q)
	p.most = most
	return p
}

func (p *post) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	calls := context.WithoutCancel(ctx) // so that the test knows how each ends
	switch worker {
	case 0, 1, 2:
		for i := 0; ctx.Err() == nil; i++ {
			d := fairqueue.Draft{Tenant: fmt.Sprint("tenant", i%7)}
			if i%5 == 0 {
				d.Delay = time.Millisecond
			}
			p.write(calls, t, d)
		}
	case 3, 4:
		for ctx.Err() == nil {
			p.read(calls, t, worker == 3)
		}
	default:
		handler := func(_ context.Context, m fairqueue.Message) error {
			p.take(t, m)
			p.end(m)
			p.handle(m)
			p.n.Add(1)
			return nil
		}
		if err := p.queue.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 2}, handler); !errors.Is(err, context.Canceled) {
			t.Errorf("Consume: %v", err)
		}
	}
}

func (p *post) write(ctx context.Context, t *testing.T, d fairqueue.Draft) {
	t.Helper()
	id, err := p.queue.Write(ctx, d)
	if p.count(ctx, t, "Write", err) {
		p.mu.Lock()
		p.written[id] = true
		p.mu.Unlock()
	}
}

// read handles a few messages, after giving those back that come for the first time, if
// told so.
func (p *post) read(ctx context.Context, t *testing.T, picky bool) {
	t.Helper()
	messages, err := p.queue.Read(ctx, fairqueue.ReadConfig{Max: 20, Block: time.Second})
	if errors.Is(err, fairqueue.ErrEmpty) || !p.count(ctx, t, "Read", err) {
		return
	}
	for _, m := range messages {
		p.take(t, m)
	}
	for _, m := range messages {
		p.end(m)
		if picky && m.Attempt == 1 {
			_, err := p.queue.Nack(ctx, fairqueue.NackConfig{}, m.Receipt)
			p.count(ctx, t, "Nack", err)
		} else if _, err := p.queue.Ack(ctx, m.Receipt); p.count(ctx, t, "Ack", err) {
			p.handle(m)
		}
	}
}

// take notes a delivery, of which there may be one with its number.
func (p *post) take(t *testing.T, m fairqueue.Message) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	delivery := fmt.Sprint(m.ID, "/", m.Attempt)
	if p.come[delivery] {
		t.Errorf("delivery %d of message %s came twice", m.Attempt, m.ID)
	}
	p.come[delivery] = true
	if n := p.flying[m.Tenant] + 1; p.most > 0 && n > p.most {
		t.Errorf("%s has %d messages in flight, at most %d", m.Tenant, n, p.most)
	} else {
		p.flying[m.Tenant] = n
	}
}

// end notes that a delivery is about to end.
func (p *post) end(m fairqueue.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying[m.Tenant]--
}

func (p *post) handle(m fairqueue.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handled[m.ID]++
}

func (p *post) check(t *testing.T) {
	t.Helper()
	var s fairqueue.Stats
	redistest.Eventually(t, "nothing is left", func() bool {
		p.read(t.Context(), t, false)
		var err error
		s, err = p.queue.Stats(t.Context())
		return err == nil && s.Waiting+s.InFlight+s.Delayed+s.Dead == 0
	})
	for id := range p.written {
		if n := p.handled[id]; n != 1 {
			t.Errorf("message %s was handled %d times, want once", id, n)
		}
	}
	if c := s.Counters; c.Written != int64(len(p.written)) || c.Acked != c.Written || c.Lost != 0 {
		t.Errorf("%d were written, and counted are %+v", len(p.written), c)
	}
}
