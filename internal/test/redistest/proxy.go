package redistest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Proxy stands between clients and one server and has the faults of networks. It
// understands RESP2 and RESP3 framing in both directions, so that it knows
// which reply belongs to which command of a pipeline.
//
// MONITOR and CLIENT REPLY OFF or SKIP break that pairing and must not be sent
// through a Proxy.
type Proxy struct {
	target   string
	listener net.Listener
	dir      string // the socket's folder, empty on TCP
	wg       sync.WaitGroup

	dropped atomic.Int64
	delay   atomic.Int64
	refuse  atomic.Bool
	armed   atomic.Bool                   // whether there are any faults
	gate    atomic.Pointer[chan struct{}] // closed when replies may pass; nil when they may

	mu       sync.Mutex
	closed   bool
	requests []*Fault // strike before a command is forwarded
	replies  []*Fault // strike before a reply is delivered
	links    map[*link]struct{}
}

// NewProxy starts a proxy before the server at target, a socket's path or a
// host:port, and ends it with the test. It listens on a unix socket.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "mr-")
	if err != nil {
		t.Fatal(err)
	}
	return newProxy(t, target, "unix", filepath.Join(dir, "p"), dir)
}

// NewTCPProxy is NewProxy listening on a free port of 127.0.0.1.
func NewTCPProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, "tcp", "127.0.0.1:0", "")
}

func newProxy(t testing.TB, target, network, addr, dir string) *Proxy {
	t.Helper()
	listener, err := net.Listen(network, addr)
	if err != nil {
		os.RemoveAll(dir)
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, listener: listener, dir: dir, links: make(map[*link]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr returns the proxy's socket path or host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the proxy's address in rueidis.ParseURL's syntax.
func (p *Proxy) URL() string {
	if p.dir != "" {
		return (&url.URL{Scheme: "unix", Path: p.Addr()}).String()
	}
	return "redis://" + p.Addr()
}

// Client returns a client that goes through the proxy, closed when the test
// ends. It sends calls that do not block over a single connection, unless a change
// sets PipelineMultiplex, so that a fault meets the connection a test means.
func (p *Proxy) Client(t testing.TB, changes ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	opt := rueidis.MustParseURL(p.URL())
	opt.PipelineMultiplex = -1
	c := newClient(t, opt, changes)
	t.Cleanup(func() {
		p.Cut() // a client's Close waits for the replies to its calls
		c.Close()
	})
	return c
}

// DropReply lets the next matching command execute on the server, then cuts
// the client's connection in place of the reply. A command that the server
// answers with an error did not execute: its reply is delivered, and the fault
// waits for the next one.
//
// The match functions of one proxy are called one at a time.
func (p *Proxy) DropReply(match func(cmd []string) bool) *Fault {
	return p.arm(&p.replies, newFault(match, true))
}

// DropReplyWhen is DropReply for each matching command, until Heal. A match
// that draws from a random source makes a lossy network.
func (p *Proxy) DropReplyWhen(match func(cmd []string) bool) *Fault {
	return p.arm(&p.replies, newFault(match, false))
}

// DropRequest cuts the client's connection in place of forwarding the next
// matching command. Commands sent before it are still answered.
func (p *Proxy) DropRequest(match func(cmd []string) bool) *Fault {
	return p.arm(&p.requests, newFault(match, true))
}

func (p *Proxy) arm(list *[]*Fault, f *Fault) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, f)
	p.armed.Store(true)
	return f
}

// Dropped returns how many commands all faults together have struck.
func (p *Proxy) Dropped() int { return int(p.dropped.Load()) }

// Delay delivers each reply d after it came from the server, like a longer
// wire: pipelined replies do not add up.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// HalfClose holds replies back while commands are still forwarded and
// connections stay open. Heal delivers these replies. The greeting of a
// new connection is held back too, and a client sends nothing before it.
func (p *Proxy) HalfClose() {
	gate := make(chan struct{})
	p.gate.CompareAndSwap(nil, &gate)
}

// Refuse makes the proxy close new connections at once, or stop doing so.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// Cut closes all connections now. Clients may connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Heal ends every fault, delay, half-close and refusal.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.requests, p.replies = nil, nil
	p.armed.Store(false)
	p.mu.Unlock()
	p.delay.Store(0)
	p.refuse.Store(false)
	if gate := p.gate.Swap(nil); gate != nil {
		close(*gate)
	}
}

// Close ends the proxy and its connections. The test's end calls it.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.wg.Wait()
	if p.dir != "" {
		os.RemoveAll(p.dir)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuse.Load() {
			client.Close()
			continue
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve runs one connection.
func (p *Proxy) serve(client net.Conn) {
	network := "tcp"
	if strings.HasPrefix(p.target, "/") {
		network = "unix"
	}
	server, err := net.DialTimeout(network, p.target, waitTimeout)
	if err != nil {
		client.Close()
		return
	}
	l := newLink(p, client, server)

	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		l.cut()
		return
	}

	var wg sync.WaitGroup
	wg.Go(l.forward)
	wg.Go(l.receive)
	wg.Go(l.deliver)
	wg.Wait()

	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// inspect shows a command to the faults. It reports whether the command is to
// be dropped, and which faults wait for its reply.
func (p *Proxy) inspect(cmd []string) (drop bool, waiting []*Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.requests {
		if !f.spent() && f.match(cmd) && f.strike() {
			p.dropped.Add(1)
			return true, nil
		}
	}
	for _, f := range p.replies {
		if !f.spent() && f.match(cmd) {
			waiting = append(waiting, f)
		}
	}
	return false, waiting
}

// claim reports whether one of the faults strikes a reply. A fault that was
// healed since its command went by does not.
func (p *Proxy) claim(waiting []*Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range waiting {
		if slices.Contains(p.replies, f) && f.strike() {
			p.dropped.Add(1)
			return true
		}
	}
	return false
}
