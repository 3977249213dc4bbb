package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/test/redistest"
)

// newWay returns a way to a server by an address of its own, which may fall silent.
func newWay(t *testing.T, server *redistest.Server) *chaos.Proxy {
	t.Helper()
	way, err := chaos.NewProxy(server.Addr())
	must(t, "NewProxy", err)
	t.Cleanup(func() { way.Close() })
	return way
}

// network is how a client reaches addresses. It may lose some, and lead to others in place of them.
type network struct {
	to map[string]string // by the address that is dialled

	mu    sync.Mutex
	conns map[net.Conn]string
	cut   []string
}

func (n *network) use(o *rueidis.ClientOption) { o.DialCtxFn = n.dial }

func (n *network) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.cut, addr) {
		return nil, fmt.Errorf("dial %s: no route to host", addr)
	}
	target := addr
	if other := n.to[addr]; other != "" {
		target = other
	}
	conn, err := dialer.DialContext(ctx, "tcp", target)
	if err == nil {
		if n.conns == nil {
			n.conns = map[net.Conn]string{}
		}
		n.conns[conn] = addr
	}
	return conn, err
}

// lose ends all connections to addresses, and makes no other one to them.
func (n *network) lose(addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = append(n.cut, addrs...)
	for conn, addr := range n.conns {
		if slices.Contains(addrs, addr) {
			conn.Close()
		}
	}
}
