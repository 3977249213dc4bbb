package fleet

import (
	"net"
	"runtime"
	"sync"
)

// gatherConn sends the writes of several calls in one packet.
//
// The calls of one server share a pipeline, and come in batches. With sixteen servers
// each call would cost a packet and wake-ups on both sides. So a write waits until the
// other runnable goroutines have run, of which many are about to write as well. If there
// are none, it is sent at once: there is no timer.
type gatherConn struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // out, err or closed
	out     []byte    // to be sent
	err     error     // of the last send
	closed  bool
}

const (
	// gatherYields is how often others may run first: callers that got replies, callers
	// that write, and the pipelines' goroutines.
	gatherYields = 3
	// gatherLimit is how many bytes may be pending before writers block.
	gatherLimit = 256 << 10
)

func gather(inner net.Conn) net.Conn {
	c := &gatherConn{Conn: inner}
	c.changed.L = &c.mu
	go c.send()
	return c
}

func (c *gatherConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > gatherLimit && c.err == nil && !c.closed {
		c.changed.Wait()
	}
	switch {
	case c.closed: // which may have ended the last write
		return 0, net.ErrClosed
	case c.err != nil:
		return 0, c.err
	}
	if len(c.out) == 0 {
		c.changed.Broadcast()
	}
	c.out = append(c.out, b...)
	return len(b), nil
}

func (c *gatherConn) send() {
	var spare []byte
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil {
		for len(c.out) == 0 && !c.closed {
			c.changed.Wait()
		}
		if len(c.out) == 0 {
			return
		}
		c.mu.Unlock()
		for range gatherYields {
			runtime.Gosched()
		}
		c.mu.Lock()
		b := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		_, err := c.Conn.Write(b)
		if err != nil {
			_ = c.Conn.Close() // which ends the reader
		}
		c.mu.Lock()
		if spare = b; cap(spare) > gatherLimit {
			spare = nil
		}
		c.err = err
		c.changed.Broadcast()
	}
}

func (c *gatherConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}
