package etcdtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"testing"
)

// gate lets bytes pass while it is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while bytes may pass
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default: // it is closed already
	}
}

func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// wait waits until the gate is open, and reports false if that takes longer than ended.
func (g *gate) wait(ended <-chan struct{}) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return true
	case <-ended:
		return false
	}
}

// gated is a connection whose bytes pass only while all its gates are open.
type gated struct {
	net.Conn

	gates []*gate
	once  sync.Once
	ended chan struct{}
}

func newGated(c net.Conn, gates ...*gate) *gated {
	return &gated{Conn: c, gates: gates, ended: make(chan struct{})}
}

func (c *gated) wait() error {
	for _, g := range c.gates {
		if !g.wait(c.ended) {
			return net.ErrClosed
		}
	}
	return nil
}

func (c *gated) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if cut := c.wait(); cut != nil {
		return 0, cut
	}
	return n, err
}

func (c *gated) Write(b []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *gated) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

// forward listens on a free port, and copies its clients' data to target and back.
func forward(t testing.TB, target string, gates ...*gate) (addr string) {
	t.Helper()
	listener := listen(t)
	ended, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		end()
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer client.Close()
				server, err := (&net.Dialer{}).DialContext(ended, "tcp", target)
				if err != nil {
					return
				}
				link := newGated(server, gates...)
				defer link.Close()
				stop := context.AfterFunc(ended, func() { _, _ = link.Close(), client.Close() })
				defer stop()
				all.Go(func() {
					_, _ = io.Copy(link, client)
					_ = link.Close()
				})
				_, _ = io.Copy(client, link)
			})
		}
	})
	return listener.Addr().String()
}

// relay listens on a free port, and is the HTTP proxy of one member. dial connects to the
// peers.
func relay(t testing.TB, dial func(ctx context.Context, addr string) (net.Conn, error)) (addr string) {
	t.Helper()
	listener := listen(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }}
	server := &http.Server{Handler: &httputil.ReverseProxy{ //nolint:gosec // only for members of a test
		Rewrite:       func(*httputil.ProxyRequest) {}, // the request names its target
		Transport:     transport,
		FlushInterval: -1, // messages of raft are streams
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:      quiet,
	}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
		serving.Wait()
	})
	return listener.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
