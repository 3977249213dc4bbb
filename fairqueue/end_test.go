package fairqueue

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestEndOnASilentServer: a consumer that has nothing to settle ends soon, although the call that fetches
// messages has no answer.
func TestEndOnASilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1")
	handled := make(chan bool, 1)
	c := testConsumer(t, q, func(context.Context, Message) error {
		handled <- true
		return nil
	})
	c.q.shared.run.Retry.Timeout = 0
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	<-handled
	redistest.Eventually(t, "the message is settled", func() bool { return stats(t, q).Counters.Acked == 1 })
	server.Pause()
	redistest.Eventually(t, "a call that fetches is under way", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.calls > 0 && len(c.finished) == 0
	})
	cancel(errStop)
	start := time.Now()
	err := <-ended
	if took, most := time.Since(start), 5*time.Second; took > most {
		t.Errorf("Consume ended %s after its context, want at most %s", took, most)
	}
	wantError(t, err, errStop)
	server.Resume()
}

// TestEndWithMessagesOnASilentServer: a consumer does not wait for answers longer than it tries to settle, whatever a call may take.
func TestEndWithMessagesOnASilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1 b:2")
	running, goOn := make(chan bool), make(chan bool)
	c := testConsumer(t, q, func(context.Context, Message) error {
		running <- true
		<-goOn
		return nil
	})
	c.q.shared.run.Retry.Timeout = 0
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx) }()
	<-running
	<-running
	cancel(errStop)
	server.Pause()
	close(goOn)
	start := time.Now()
	err := <-ended
	if took, most := time.Since(start), callTimeout/2; took > most {
		t.Errorf("Consume ended %s after its handlers, want at most %s", took, most)
	}
	wantError(t, err, ErrUnsettled)
	server.Resume()
}
