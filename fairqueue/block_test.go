package fairqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestBlockBoundsARead: a read of a server that does not answer ends with its Block, and not as if the queue
// were empty. Messages in a later reply are not lost.
func TestBlockBoundsARead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1")
	server.Pause()
	start := time.Now()
	_, err := q.Read(t.Context(), ReadConfig{Block: 300 * time.Millisecond})
	if took, most := time.Since(start), 3*time.Second; took > most {
		t.Errorf("a read with a Block of 300 ms took %s, want at most %s", took, most)
	}
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrEmpty) {
		t.Errorf("the read failed with %v, want %v", err, context.DeadlineExceeded)
	}
	server.Resume()
	ack(t, q, eventually(t, q))
}

// TestShortBlockFindsMessages, although the server takes longer to answer.
func TestShortBlockFindsMessages(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	q := openOn(t, proxy.Client(t), redistest.Name(t), Config{})
	write(t, q, "a:1")
	proxy.Delay(20 * time.Millisecond)
	messages, err := q.Read(t.Context(), ReadConfig{Block: time.Millisecond})
	want(t, "messages", bodies(messages), "1", err)
}
