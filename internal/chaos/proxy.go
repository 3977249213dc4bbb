package chaos

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// Proxy passes connections on to a server, and causes the accidents of a network.
type Proxy struct {
	listener net.Listener
	target   string
	drops    atomic.Int64 // replies still to drop
	dropped  atomic.Int64
	passing  sync.RWMutex // held for writing while the proxy is silent
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

// NewProxy returns a proxy on a free loopback port to a TCP address.
func NewProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	x := &Proxy{listener: listener, target: target, conns: map[net.Conn]bool{}}
	go x.accept()
	return x, nil
}

// Addr returns the address to dial.
func (x *Proxy) Addr() string { return x.listener.Addr().String() }

// DropReplies has the proxy drop the replies to the next n calls that write: the server has
// done the work, the client sees its connection break.
func (x *Proxy) DropReplies(n int) { x.drops.Store(int64(n)) }

// Dropped returns how many replies were dropped so far.
func (x *Proxy) Dropped() int64 { return x.dropped.Load() }

// Silence holds back all bytes until speak is called.
func (x *Proxy) Silence() (speak func()) {
	x.passing.Lock()
	return x.passing.Unlock
}

// Cut ends all connections. Bytes that a Silence holds back are lost.
func (x *Proxy) Cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for conn := range x.conns {
		conn.Close()
	}
}

// Close ends all connections, and takes no others.
func (x *Proxy) Close() error {
	err := x.listener.Close()
	x.Cut()
	return err
}

func (x *Proxy) accept() {
	for {
		client, err := x.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", x.target)
		if err != nil { // the server is down
			client.Close()
			continue
		}
		x.mu.Lock()
		x.conns[client], x.conns[server] = true, true
		x.mu.Unlock()
		var called atomic.Bool // a script was called whose reply is to be dropped
		go x.pass(client, server, func(b []byte) (drop bool) {
			if x.drops.Load() > 0 && (bytes.Contains(b, []byte("EVALSHA")) || bytes.Contains(b, []byte("INCRBY"))) {
				called.Store(true)
			}
			return false
		})
		go x.pass(server, client, func([]byte) (drop bool) {
			if called.Load() && x.drops.Add(-1) >= 0 {
				x.dropped.Add(1)
				return true
			}
			return false
		})
	}
}

// pass copies bytes until a side closes its connection, or some are to be dropped; then it
// closes both.
func (x *Proxy) pass(from, to net.Conn, drop func([]byte) bool) {
	defer func() {
		from.Close()
		to.Close()
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.conns, from)
		delete(x.conns, to)
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		x.passing.RLock()
		lose := drop(buffer[:n])
		if !lose {
			_, err = to.Write(buffer[:n])
		}
		x.passing.RUnlock()
		if lose || err != nil {
			return
		}
	}
}
