// Package members reaches the servers of a fleet one by one: for agents, snapshots and
// moves of tags, which look after the servers and not after the data.
//
// For them servers that are down or silent are normal. So calls are not retried, a silent
// server is noticed within the timeouts of the option, and [Ask] returns as soon as its
// context ends.
package members

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// Errors that package fleet exports, for packages that it imports.
var (
	// ErrUnavailable means that a server cannot be reached.
	ErrUnavailable = millrace.ErrUnavailable

	// ErrUnknownServer means that a server is not the member that the map names.
	ErrUnknownServer = &millrace.Error{
		Code:    "stranger",
		Message: "a server is not the member that the directory names",
		Hint:    "Look at millrace fleet show, and restore the server's data or take it out of the fleet.",
	}
)

// Single returns how to connect to one server: with user, password and TLS of option, and
// without retries. Timeouts that option does not set are dial for opening a connection,
// which is also its keep-alive interval, and silence for a reply.
func Single(option rueidis.ClientOption, addr string, dial, silence time.Duration) rueidis.ClientOption {
	option.InitAddress = []string{addr}
	option.Sentinel = rueidis.SentinelOption{}
	option.ForceSingleClient = true
	option.DisableCache = true
	option.DisableRetry = true
	option.AlwaysPipelining = true
	if option.ClientSetInfo == nil {
		option.ClientSetInfo = rueidis.DisableClientSetInfo // the users of docs/SECURITY.md may lack the permission
	}
	option.Dialer.Timeout = cmp.Or(option.Dialer.Timeout, dial)
	option.Dialer.KeepAlive = cmp.Or(option.Dialer.KeepAlive, dial)
	option.ConnWriteTimeout = cmp.Or(option.ConnWriteTimeout, silence)
	return option
}

// Small sets one pipelined connection, and buffers for connections to hundreds of servers,
// where option does not set them.
func Small(option *rueidis.ClientOption) {
	option.PipelineMultiplex = cmp.Or(option.PipelineMultiplex, -1)
	option.RingScaleEachConn = cmp.Or(option.RingScaleEachConn, 8)
	option.ReadBufferEachConn = cmp.Or(option.ReadBufferEachConn, 32<<10)
	option.WriteBufferEachConn = cmp.Or(option.WriteBufferEachConn, 32<<10)
}

// Pool has a connection to each server that was asked. It is safe for concurrent use.
// Close it.
type Pool struct {
	option  rueidis.ClientOption
	silence time.Duration

	mu      sync.Mutex
	clients map[string]rueidis.Client
	closed  bool
}

// New returns a pool without connections. It opens them as option says, except for its
// addresses. Silence is the timeout of a reply if option has none.
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

// Secret is a secret that all processes with the same option share.
func (p *Pool) Secret() string { return p.option.Password }

// Option returns how the pool connects to a server.
func (p *Pool) Option(addr string) rueidis.ClientOption {
	return Single(p.option, addr, time.Second, p.silence)
}

// Ask calls a function with the connection to a server, and returns when that does or
// when ctx ends, with its cause. Each call connects again if there is no connection. The
// error of a closed pool is rueidis.ErrClosing.
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
	if c, err := p.keep(addr, nil); c != nil || err != nil {
		return c, err
	}
	made, err := rueidis.NewClient(p.Option(addr)) // without the lock, since it connects
	if made == nil {
		return nil, err
	}
	c, err := p.keep(addr, made)
	if c != made {
		made.Close()
	}
	return c, err
}

// keep returns the client of a server, which is made if there is none.
func (p *Pool) keep(addr string, made rueidis.Client) (rueidis.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, rueidis.ErrClosing
	}
	if p.clients[addr] == nil && made != nil {
		p.clients[addr] = made
	}
	return p.clients[addr], nil
}
