package bench

import (
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDistantDelaysEachReply: each reply takes as long as the wire is, also one that follows the
// one before at once, and replies that come together are delivered together.
func TestDistantDelaysEachReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := distantConn(near)
		answered := make(chan struct{})
		go func() { // the server sends two bytes for each byte, apart from each other
			defer close(answered)
			request := make([]byte, 1)
			for {
				if _, err := far.Read(request); err != nil {
					return
				}
				for range 2 {
					if _, err := far.Write(request); err != nil {
						return
					}
				}
			}
		}()
		start, reply := time.Now(), make([]byte, 1)
		var at []time.Duration
		for range 3 {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := io.ReadFull(c, reply); err != nil {
					t.Fatal(err)
				}
				at = append(at, time.Since(start))
			}
		}
		if want := []time.Duration{away, away, 2 * away, 2 * away, 3 * away, 3 * away}; !slices.Equal(at, want) {
			t.Errorf("replies were delivered after %v, want %v", at, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-answered
		if _, err := c.Read(reply); err == nil {
			t.Error("a connection that was closed could be read, want an error")
		}
	})
}
