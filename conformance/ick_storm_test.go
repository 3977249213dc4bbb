package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

// ickStorm takes a server away while producers mark and every consumer is in the
// middle of a batch, with more marks waiting. Every mark that was acknowledged is
// handed out.
func ickStorm(t *testing.T, on running) {
	producers, consumers := on.client(t), on.client(t)
	names := spread(t, on, 2)
	victim := names[0]
	t.Cleanup(on.mend) // should the test end before it does so itself
	recovered := make(chan struct{})
	producing, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	var streams []*stream
	for _, name := range names {
		s := newStream(t, openIck(t, producers, name))
		streams = append(streams, s)
		consume(t, openIck(t, consumers, name), ick.ConsumeConfig{Batch: 20}, s.consume)
		working.Go(func() { s.produce(producing, recovered) })
	}
	flow := func(what string) {
		t.Helper()
		for _, s := range streams {
			s.flows(what)
		}
	}

	flow("before the disturbance")
	release := make(chan struct{})
	for _, s := range streams {
		s.holdBatch(release)
	}
	for _, s := range streams {
		s.backsUp()
		s.seal()
	}
	on.secure(victim)
	on.disturb(victim)
	close(release)
	close(recovered)
	flow("after the disturbance")
	on.mend()
	flow("after all servers are back")
	stop()
	working.Wait()
	for i, s := range streams {
		awaitEmpty(t, openIck(t, producers, names[i]))
		s.check()
	}
}

// stream is one dirty list under load: a producer with an outbox, and the members
// that its consumers got.
type stream struct {
	t        *testing.T
	producer dirty
	pick     chan chan struct{} // to a handler, which then holds its batch until the channel sent is closed

	mu           sync.Mutex
	acknowledged []string // marked, in this order
	sealed       int      // how many of them no failover can lose
	handed       map[string]bool
}

func newStream(t *testing.T, producer dirty) *stream {
	return &stream{t: t, producer: producer, handed: map[string]bool{}, pick: make(chan chan struct{})}
}

// flows waits until more marks are made and handed out.
func (s *stream) flows(what string) {
	s.t.Helper()
	acknowledged, handed := s.counts()
	redistest.Eventually(s.t, what+": marks are made and handed out", func() bool {
		a, h := s.counts()
		return a > acknowledged+20 && h > handed+20
	})
}

// backsUp waits until marks wait behind a batch that is held.
func (s *stream) backsUp() {
	s.t.Helper()
	redistest.Eventually(s.t, "marks wait behind the batch that is held", func() bool {
		acknowledged, handed := s.counts()
		return acknowledged > handed+50
	})
}

// produce marks new members until ctx ends. When it hears that a server was lost
// and another took over, it repeats marks that may have been lost with it.
func (s *stream) produce(ctx context.Context, recovered <-chan struct{}) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for i := 0; ; i++ {
		select {
		case <-recovered:
			recovered = nil
			for _, member := range s.outbox() {
				s.mark(ctx, member)
			}
		default:
		}
		member := fmt.Sprint("member", i)
		if !s.mark(ctx, member) {
			return
		}
		s.mu.Lock()
		s.acknowledged = append(s.acknowledged, member)
		s.mu.Unlock()
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// mark adds a member until Redis says that it did. A call is not cut off: Redis might carry it out after the test has seen that
// nothing is left.
func (s *stream) mark(ctx context.Context, member string) bool {
	for ctx.Err() == nil {
		began := time.Now()
		_, err := s.producer.AddNow(context.WithoutCancel(ctx), member)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			wantPatient(s.t, "AddNow", began, err)
		}
	}
	return false
}

// seal says that no failover can lose marks acknowledged until now.
func (s *stream) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = len(s.acknowledged)
}

// outbox returns the members acknowledged since.
func (s *stream) outbox() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acknowledged[s.sealed:])
}

// consume is the handler.
func (s *stream) consume(ctx context.Context, batch []ick.Entry) error {
	select {
	case release := <-s.pick:
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		s.handed[e.Member] = true
	}
	return nil
}

// holdBatch returns when the handler has a batch in its hands, which it holds
// until release is closed.
func (s *stream) holdBatch(release chan struct{}) {
	s.t.Helper()
	select {
	case s.pick <- release:
	case <-time.After(20 * time.Second):
		s.t.Fatal("no batch is handed out")
	}
}

// counts returns how many marks were acknowledged and how many handed out.
func (s *stream) counts() (acknowledged, handed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acknowledged), len(s.handed)
}

// check reports forgotten members.
func (s *stream) check() {
	s.t.Helper()
	if lost := s.forgotten(); len(lost) > 0 {
		s.t.Errorf("%d of %d marks are forgotten: %v", len(lost), len(s.acknowledged), lost[:min(len(lost), 10)])
	}
}

// forgotten returns the members that were acknowledged and not handed out.
func (s *stream) forgotten() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.acknowledged), func(member string) bool { return s.handed[member] })
}
