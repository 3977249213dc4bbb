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

// LaneFragment is the fragment lane, in front of scripts whose calls must take effect
// once.
//
//go:embed lane.lua
var LaneFragment string

// TidyFragment is the fragment tidy, in front of upkeep that has a structure forget the
// answers of lanes that rest.
//
//go:embed tidy.lua
var TidyFragment string

// Lanes are those of one client. The zero value works, and a nil one stands for the
// process's own. It is safe for concurrent use.
type Lanes struct {
	mu     sync.Mutex
	client string
	made   int     // under this client's name
	free   []*lane // the last to be given back first, so that few are used
}

// lane is what one call at a time has.
type lane struct {
	client string
	name   string // "CLIENT:NUMBER"
	number uint64 // of its last call
}

// process has the lanes of all structures of the process: as many as it ever had calls
// under way at once.
var process Lanes

// Request is one call, as a script with the fragment lane knows it.
type Request struct {
	Lane   string
	Ticket string

	lanes *Lanes
	lane  *lane
	sent  bool
}

// keyedTicket is that of every request with a key of its own.
const keyedTicket = "0000000000000000idempotency"

// Take returns the request of one call. It must be given back with [Request.Done].
// Under a seed it is the seed's next one, which another process may have sent before.
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

// take gives a request a lane that is free.
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

// Done gives the lane back. What becomes of the call is known, or nobody waits for it
// any more: should it arrive late, the lane's next call is before it.
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

// First reports whether this is the first time that it is asked, which is before the
// request is sent for the first time.
func (r *Request) First() bool {
	first := !r.sent
	r.sent = true
	return first
}

// Keyed reports whether the request outlives its process.
func (r *Request) Keyed() bool { return r.Ticket == keyedTicket }

// Renew gives the client another name and the request another lane, for one that was
// refused because a copy of this machine has the same names. It reports false for a
// request with a key of its own.
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

// letters returns 64 random bits. They come from the kernel, since a copy of a
// machine has a copy of the process's own generators.
func letters() string {
	var bits [8]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}
