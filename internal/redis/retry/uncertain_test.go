package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
)

// TestUncertain: the error of a call without an answer is uncertain and keeps its cause, which
// code that asks why there is no answer sees alone.
func TestUncertain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("server a: %w", retry.Uncertain(io.EOF))
	if !errors.Is(err, millrace.ErrUncertain) || !errors.Is(err, io.EOF) {
		t.Errorf("error = %v, want %v and %v", err, millrace.ErrUncertain, io.EOF)
	}
	if got := retry.Bare(err); !errors.Is(got, io.EOF) || millrace.Code(got) != "" {
		t.Errorf("Bare = %v, want %v", got, io.EOF)
	}
	if again := retry.Uncertain(err); !errors.Is(again, err) {
		t.Errorf("Uncertain of an uncertain error = %v, want the same one", again)
	}
	said := millrace.ErrUncertain.Errorf("a client says so").Wrap(err)
	for err, want := range map[error]bool{
		nil: false, err: true, io.EOF: true, said: false, millrace.ErrStale: false, millrace.ErrPartial.Wrap(err): false,
	} {
		if got := retry.NoAnswer(err); got != want {
			t.Errorf("NoAnswer(%v) = %v, want %v", err, got, want)
		}
	}
}

// TestOpen: which failed tries may have taken effect.
func TestOpen(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(millrace.ErrStale)
	for _, tt := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // a row's own
		err  error
		want bool
	}{
		{"no error", t.Context(), nil, false},
		{"a lost connection", t.Context(), io.EOF, true},
		{"a closed client", t.Context(), rueidis.ErrClosing, true},
		{"no connection", t.Context(), &net.OpError{Op: "dial", Err: io.EOF}, false},
		{"a broken connection", t.Context(), &net.OpError{Op: "read", Err: io.EOF}, true},
		{"a deadline", t.Context(), context.DeadlineExceeded, true},
		{"the cause of the context's end, which has a code", ended, context.Cause(ended), true},
		{"a client that sent nothing", t.Context(), millrace.ErrNotFound.Wrap(io.EOF), false},
		{"a client that does not know", t.Context(), millrace.ErrUncertain.Errorf("no answer"), true},
	} {
		if got := retry.Open(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: Open = %v, want %v", tt.name, got, tt.want)
		}
	}
}
