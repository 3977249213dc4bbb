package fleet

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestGather: written data arrives whole and in order, however it is cut, and a writer that
// is faster than the other side's reads waits.
func TestGather(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	c := gather(near)
	sent := make([]byte, 3<<20)
	rand.Read(sent)
	received := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far)
		received <- b
	}()
	for rest, size := sent, 1; len(rest) > 0; size = size*3%100_003 + 1 {
		n := min(size, len(rest))
		if m, err := c.Write(rest[:n]); m != n || err != nil {
			t.Fatalf("Write of %d bytes = %d, %v", n, m, err)
		}
		rest = rest[n:]
	}
	g := c.(*gatherConn)
	redistest.Eventually(t, "all is sent", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.out) == 0
	})
	if _, err := c.Write([]byte("x")); err != nil { // which is written behind the rest
		t.Fatal(err)
	}
	redistest.Eventually(t, "all is sent", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.out) == 0
	})
	must(t, c.Close())
	if got := <-received; !bytes.HasPrefix(got, sent) || string(got[len(sent):]) != "x" && len(got) > len(sent) {
		t.Errorf("%d bytes arrived, want the %d that were sent", len(got), len(sent)+1)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close = %v, want net.ErrClosed", err)
	}
}

// TestGatherTells the reader when data cannot be sent any more, and the next writer.
func TestGatherTells(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	c := gather(near)
	defer c.Close()
	far.Close()
	_, _ = c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("Read of a connection that cannot be written to succeeds")
	}
	redistest.Eventually(t, "who writes is told", func() bool { _, err := c.Write([]byte("x")); return err != nil })
}
