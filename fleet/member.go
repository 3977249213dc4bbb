package fleet

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/members"
)

// member is the connection to one server.
type member struct {
	f     *Fleet
	addr  string
	ready chan struct{} // closed when client and err are there

	client rueidis.Client
	err    error // why there is none

	health   atomic.Pointer[health]
	checking atomic.Bool // whether health is being asked for
}

// newMember connects in the background: a server that does not answer must hold
// up nobody but who needs it.
func newMember(f *Fleet, addr string) *member {
	m := &member{f: f, addr: addr, ready: make(chan struct{})}
	// A server that hangs is noticed about as fast as a reply is too late.
	option := members.Single(f.cfg.Option, addr, 500*time.Millisecond, time.Second)
	go func() {
		defer close(m.ready)
		// One that cannot be reached now is tried again by each call.
		client, err := rueidis.NewClient(option)
		if client == nil {
			m.err = err
			return
		}
		m.client = client
	}()
	return m
}

// open returns the client when there is one.
func (m *member) open(ctx context.Context) (rueidis.Client, error) {
	select {
	case <-m.ready:
	default:
		select {
		case <-m.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return m.client, m.err
}

func (m *member) close() {
	<-m.ready
	if m.client != nil {
		m.client.Close()
	}
}

// unsent reports whether an error says that there was no connection, so that
// nothing was sent.
func unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
