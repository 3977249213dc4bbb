package ick

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestUncommittedAtTheEnd: Consume returns that the last batch was not committed at its end, because the server was
// gone, and the cause of its end. So does that of a channel, for all its Icks together.
func TestUncommittedAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"the server is gone": true, "the server is there": false} {
		for _, kind := range []string{"an Ick", "a channel"} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Options{})
				consume, batches := marked(t, server, kind)
				running, goOn := make(chan struct{}), make(chan struct{})
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error {
						running <- struct{}{}
						<-goOn
						return nil
					})
				}()
				for range batches {
					<-running
				}
				cause := errors.New("the test is over")
				cancel(cause)
				if gone {
					server.Kill()
				}
				close(goOn)
				err := <-ended
				if !errors.Is(err, cause) || errors.Is(err, ErrUncommitted) != gone {
					t.Errorf("Consume = %v, want %v, and %t: %v", err, cause, gone, ErrUncommitted)
				}
				if n, most := strings.Count(err.Error(), "2 members"), batches; gone && n != most {
					t.Errorf("Consume = %q, want 2 members of each of %d batches", err, most)
				}
			})
		}
	}
}

// marked marks members; it returns a call that consumes them, and in how many batches.
func marked(t *testing.T, server *redistest.Server, kind string) (consume func(context.Context, ConsumeConfig, Handler) error, batches int) {
	t.Helper()
	if kind == "an Ick" {
		k := openOn(t, server.Client(t), "x", Config{})
		wantAdd(t, k, "a1 b2", 2, 0)
		return k.Consume, 1
	}
	c := openChannel(t, server.Client(t), "x", ChannelConfig{Size: 2, Shard: digit})
	if _, err := c.AddNow(t.Context(), "a0", "b0", "a1", "b1"); err != nil {
		t.Fatal(err)
	}
	return c.Consume, 2
}
