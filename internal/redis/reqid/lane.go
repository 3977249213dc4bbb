package reqid

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync"
)

// ClockFragment is the fragment clock, which reads the server's clock once in a script.
//
//go:embed clock.lua
var ClockFragment string

// LaneFragment is the fragment lane, for scripts whose calls must take effect once.
//
//go:embed lane.lua
var LaneFragment string

// TidyFragment is the fragment tidy, for upkeep that forgets the answers of idle lanes.
//
//go:embed tidy.lua
var TidyFragment string

// Lanes are the lanes of one client. The zero value works; nil means the process's own. It is
// safe for concurrent use.
type Lanes struct {
	mu     sync.Mutex
	client string
	made   int     // under this client's name
	free   []*lane // a stack, so that few are used
}

// lane belongs to one call at a time.
type lane struct {
	client string
	name   string // "CLIENT:NUMBER"
	number uint64 // of its last call
}

// process are the lanes of all structures of the process: as many as it ever had calls in
// flight at once.
var process Lanes

// Request identifies one call to a script with the fragment lane.
type Request struct {
	Lane   string
	Ticket string

	lanes *Lanes
	lane  *lane
	sent  bool
}

// keyedTicket is the ticket of every request under a seed.
const keyedTicket = "0000000000000000idempotency"

// Take returns the request of one call. The caller must call [Request.Done]. Under a seed it is
// the seed's next one, which another process may have sent before.
func (l *Lanes) Take(ctx context.Context) *Request {
	if Seeded(ctx) {
		return &Request{Lane: Next(ctx), Ticket: keyedTicket}
	}
	if l == nil {
		l = &process
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Request{lanes: l}
	l.take(r)
	return r
}

// take gives a request a free lane.
func (l *Lanes) take(r *Request) {
	if n := len(l.free); n > 0 {
		r.lane, l.free = l.free[n-1], l.free[:n-1]
	} else {
		if l.client == "" {
			l.client = letters()
		}
		r.lane = &lane{client: l.client, name: l.client + ":" + strconv.Itoa(l.made)}
		l.made++
	}
	r.lane.number++
	r.Lane, r.Ticket = r.lane.name, fmt.Sprintf("%016d%s", r.lane.number, letters())
}

// Done frees the lane: the outcome of the call is known, or its caller has given up. If the
// call arrives after the lane's next one, it is refused.
func (r *Request) Done() {
	if r.lane == nil {
		return
	}
	r.lanes.mu.Lock()
	defer r.lanes.mu.Unlock()
	if r.lane.client == r.lanes.client {
		r.lanes.free = append(r.lanes.free, r.lane)
	}
	r.lane = nil
}

// First reports whether this is its first call: before the request is sent for the first
// time.
func (r *Request) First() bool {
	first := !r.sent
	r.sent = true
	return first
}

// Keyed reports whether the request is under a seed, so that another process may repeat it.
func (r *Request) Keyed() bool { return r.Ticket == keyedTicket }

// Renew gives the client another name and the request another lane, after a refusal because a
// copy of this machine has the same name. It reports false for a request under a seed.
func (r *Request) Renew() bool {
	if r.lane == nil {
		return false
	}
	l := r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.lane.client == l.client {
		l.client, l.made, l.free = "", 0, nil
	}
	l.take(r)
	return true
}

// letters returns 64 random bits, from the kernel because a copy of a machine also copies the
// process's own generators.
func letters() string {
	var bits [8]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}
