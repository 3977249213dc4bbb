package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/fleet/members"
)

// member is one server, and the connections to it: none until it is used, then one for
// pipelined commands, and one more for each call that blocks.
type member struct {
	f      *Fleet
	addr   string
	option rueidis.ClientOption
	run    atomic.Pointer[string] // in which the newest map has it, empty if the map does not know

	opening sync.Once
	ready   chan struct{} // closed when client and err are set
	client  rueidis.Client
	err     error // why there is none

	// waiting returns the client for calls that block: each has a connection, which is closed
	// when the call's context ends.
	waiting func() rueidis.Client

	health   atomic.Pointer[health]
	checking atomic.Bool  // whether a check of health is in flight
	refuses  atomic.Int64 // until when it is not asked first, since it refused a read; 0 for never
}

const (
	// pingInterval is the interval of PINGs on idle connections, and of clearing the pool
	// of idle ones: a thousand processes may be connected.
	pingInterval = 10 * time.Second
	// memberTimeout is how long a server may take to answer.
	memberTimeout = 1500 * time.Millisecond
)

func newMember(f *Fleet, addr string) *member {
	m := &member{f: f, addr: addr, ready: make(chan struct{})}
	m.option = members.Single(f.cfg.Option, addr, 500*time.Millisecond, memberTimeout)
	if f.cfg.Option.Dialer.KeepAlive == 0 {
		m.option.Dialer.KeepAlive = pingInterval
	}
	m.option.BlockingPoolCleanup = pingInterval
	members.Small(&m.option)
	m.waiting = sync.OnceValue(m.openWaiting)
	return m
}

// open returns the client for pipelined commands. It connects in the background, so a
// server that does not answer delays no caller beyond its context.
func (m *member) open(ctx context.Context) (rueidis.Client, error) {
	select {
	case <-m.ready:
		return m.client, m.err
	default:
	}
	m.opening.Do(func() {
		go func() {
			defer close(m.ready)
			option := m.option
			option.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				inner, err := m.dial(ctx, addr, dialer, config)
				if err != nil {
					return nil, err
				}
				return m.f.watched.watch(gather(inner), m.option.ConnWriteTimeout), nil
			}
			// If it cannot be reached now, each call tries again.
			client, err := rueidis.NewClient(option)
			if client == nil {
				m.err = err
				return
			}
			m.client = client
		}()
	})
	select {
	case <-m.ready:
		return m.client, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// openWaiting returns a client that connects for the first call.
func (m *member) openWaiting() rueidis.Client {
	option, made := m.option, false
	option.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		if !made {
			return nil, errors.New("no call yet") // a new client connects at once
		}
		return m.dial(ctx, addr, dialer, config)
	}
	c, _ := rueidis.NewClient(option)
	made = true
	return c
}

func (m *member) close() {
	m.opening.Do(func() {
		m.err = rueidis.ErrClosing
		close(m.ready)
	})
	<-m.ready
	if m.client != nil {
		m.client.Close()
	}
	m.waiting().Close()
}
