package fleet

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// watch closes pipelined connections whose server does not answer. Frequent PINGs
// would do the same, and be most of the traffic of idle processes.
type watch struct {
	now func() int64

	mu    sync.Mutex
	conns map[*watchedConn]struct{}
}

// watch returns a connection that is closed when its server does not answer for that
// long.
func (w *watch) watch(inner net.Conn, silence time.Duration) net.Conn {
	c := &watchedConn{Conn: inner, w: w, silence: int64(silence)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = map[*watchedConn]struct{}{}
	}
	w.conns[c] = struct{}{}
	return c
}

// check closes the connections whose servers have not answered for too long.
func (w *watch) check() {
	now := w.now()
	var silent []*watchedConn
	w.mu.Lock()
	for c := range w.conns {
		if asked := c.asked.Load(); asked != 0 && now-asked > c.silence {
			silent = append(silent, c)
		}
	}
	w.mu.Unlock()
	for _, c := range silent {
		c.gone.Store(true)
		_ = c.Close()
	}
}

// watchedConn is a connection that knows whether its server owes a reply.
type watchedConn struct {
	net.Conn

	w       *watch
	silence int64
	asked   atomic.Int64 // since when, 0 if the server has answered since
	gone    atomic.Bool
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if c.asked.Load() == 0 {
		c.asked.Store(c.w.now())
	}
	return c.Conn.Write(b)
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.asked.Store(0)
	}
	if err != nil && c.gone.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c)
	c.w.mu.Unlock()
	return c.Conn.Close()
}
