package fairqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestUnsettledAtTheEnd: Consume returns that messages were not settled at its end, with the reason and the
// cause of its end. It does not return trouble that ended before.
func TestUnsettledAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hurt   func(t *testing.T, s *redistest.Server)
		reason error // nil if Redis does not answer
	}{
		"the server is gone": {func(_ *testing.T, s *redistest.Server) { s.Kill() }, nil},
		"the queue is broken": {func(t *testing.T, s *redistest.Server) {
			t.Helper()
			if err := do(t, s.Client(t), "SET", baseKey("x")+":hot", "text").Error(); err != nil {
				t.Fatal(err)
			}
		}, millrace.ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			q := openOn(t, server.Client(t), "x", Config{})
			write(t, q, "a:1 a:2 b:3")
			running, goOn := make(chan struct{}), make(chan struct{})
			c := testConsumer(t, q, func(context.Context, Message) error {
				running <- struct{}{}
				<-goOn
				return nil
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.run(ctx) }()
			for range 3 {
				<-running
			}
			cancel(errStop)
			tt.hurt(t, server)
			close(goOn)
			err := <-ended
			if !errors.Is(err, ErrUnsettled) || !errors.Is(err, errStop) || tt.reason != nil && !errors.Is(err, tt.reason) {
				t.Errorf("Consume = %v, want %v with %v and %v", err, ErrUnsettled, errStop, tt.reason)
			}
			if text := "3 messages were not settled"; !strings.Contains(err.Error(), text) {
				t.Errorf("Consume = %q, want %q in it", err, text)
			}
		})
	}
	t.Run("the server came back", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{AOF: true})
		q := openOn(t, server.Client(t), "x", Config{})
		write(t, q, "a:1")
		handled := make(chan string, 10)
		c := testConsumer(t, q, func(_ context.Context, m Message) error {
			if string(m.Body) == "1" {
				server.Kill()
			}
			handled <- string(m.Body)
			return nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		<-handled
		redistest.Eventually(t, "the first message is given up", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.unsettled == 1
		})
		server.Restart()
		write(t, q, "b:2")
		<-handled
		cancel(errStop)
		if err := <-ended; !errors.Is(err, errStop) || errors.Is(err, ErrUnsettled) {
			t.Errorf("Consume = %v, want %v alone", err, errStop)
		}
	})
}

// testConsumer returns a consumer that tries to settle for a moment only.
func testConsumer(t *testing.T, q *Queue, handler Handler) *consumer {
	t.Helper()
	cfg, err := ConsumeConfig{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := newConsumer(q, cfg, handler)
	c.settleWithin, q.shared.run.Retry.Timeout = time.Millisecond, 100*time.Millisecond
	return c
}
