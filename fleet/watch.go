package fleet

import (
	"net"
	"sync/atomic"
	"time"
)

// watchedConn is a pipelined connection whose reads fail when the server does not answer.
// Frequent PINGs would do the same, and be most of the traffic of idle processes.
type watchedConn struct {
	net.Conn

	silence time.Duration // how long an answer may take
	shared  atomic.Bool   // whether calls share it: while rueidis begins, it sets deadlines itself
	owed    atomic.Bool   // whether something was written since the last answer
}

// SetDeadline sets a deadline. rueidis ends its own ones before it begins to pipeline.
func (c *watchedConn) SetDeadline(t time.Time) error {
	c.shared.Store(t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if c.shared.Load() && !c.owed.Swap(true) {
		if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.shared.Load() {
		// The deadline ends even if nothing is owed: a Write at the same time may set it late.
		c.owed.Store(false)
		_ = c.SetReadDeadline(time.Time{}) // fails if the connection is closed
	}
	return n, err
}
