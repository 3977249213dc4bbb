// Package members reaches the servers of a fleet one by one, by their addresses, for
// those who look after the servers and not after what is stored there: who fails them
// over, and who takes their snapshots.
//
// A server that cannot be reached, or is silent, is their daily work. So nothing is
// repeated behind the caller's back, a hanging server is noticed within the limits of
// the option, and [Ask] returns as soon as its context ends, whatever the connection
// is busy with.
package members

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// Single returns how to connect to the server at addr and to no other: with user,
// password and TLS of option, without repeats. Limits that option does not set are
// dial for opening a connection, and for its keep-alive, and silence for an answer.
func Single(option rueidis.ClientOption, addr string, dial, silence time.Duration) rueidis.ClientOption {
	option.InitAddress = []string{addr}
	option.Sentinel = rueidis.SentinelOption{}
	option.ForceSingleClient = true
	option.DisableCache = true
	option.DisableRetry = true
	option.AlwaysPipelining = true
	if option.ClientSetInfo == nil {
		option.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may not
	}
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = dial
	}
	if option.Dialer.KeepAlive == 0 {
		option.Dialer.KeepAlive = dial
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = silence
	}
	return option
}

// Small has a client open one connection for all that it pipelines, with buffers that
// hundreds of servers may be reached with. What option sets itself stays.
func Small(option *rueidis.ClientOption) {
	if option.PipelineMultiplex == 0 {
		option.PipelineMultiplex = -1
	}
	if option.RingScaleEachConn == 0 {
		option.RingScaleEachConn = 8
	}
	if option.ReadBufferEachConn == 0 {
		option.ReadBufferEachConn = 32 << 10
	}
	if option.WriteBufferEachConn == 0 {
		option.WriteBufferEachConn = 32 << 10
	}
}

// dialLimit is how long opening a connection may take.
const dialLimit = time.Second

// Pool has a connection to each server that was asked. It is safe for concurrent use.
// Close it.
type Pool struct {
	option  rueidis.ClientOption
	silence time.Duration

	mu      sync.Mutex
	clients map[string]rueidis.Client
	closed  bool
}

// New returns a pool without connections. Those that it opens are as option says; its
// addresses are not used. Silence is the limit of an answer if option has none.
func New(option rueidis.ClientOption, silence time.Duration) *Pool {
	return &Pool{option: option, silence: silence, clients: map[string]rueidis.Client{}}
}

// Close closes the connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.clients {
		c.Close()
	}
	clear(p.clients)
}

// Secret is what who connects as option says has, and others do not.
func (p *Pool) Secret() string { return p.option.Password }

// Option returns how the pool connects to a server.
func (p *Pool) Option(addr string) rueidis.ClientOption {
	return Single(p.option, addr, dialLimit, p.silence)
}

// Ask calls a function with the connection to a server, and returns when that does or
// when ctx ends, with the cause. A server that cannot be reached now is tried again by
// each call. When the pool is closed, the error is rueidis.ErrClosing.
func Ask[T any](ctx context.Context, p *Pool, addr string, call func(ctx context.Context, c rueidis.Client) (T, error)) (T, error) {
	return script.Prompt(ctx, func(ctx context.Context) (T, error) {
		c, err := p.client(addr)
		if err != nil {
			var none T
			return none, err
		}
		return call(ctx, c)
	})
}

func (p *Pool) client(addr string) (rueidis.Client, error) {
	if c, err := p.known(addr); c != nil || err != nil {
		return c, err
	}
	made, err := rueidis.NewClient(p.Option(addr))
	if made == nil {
		return nil, err
	} // a client that could not connect tries again with the next call
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[addr]
	switch {
	case p.closed:
		made.Close()
		return nil, rueidis.ErrClosing
	case c != nil:
		made.Close()
		return c, nil
	}
	p.clients[addr] = made
	return made, nil
}

func (p *Pool) known(addr string) (rueidis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, rueidis.ErrClosing
	}
	return p.clients[addr], nil
}
