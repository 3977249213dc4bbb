package parts

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

const (
	// lookInterval is how old the known load of a part may become while it is in use.
	lookInterval = 200 * time.Millisecond

	// A part that failed is asked again after firstRest, then after twice as long, up to
	// longestRest.
	firstRest   = 100 * time.Millisecond
	longestRest = 2 * time.Second
)

// part is a queue and what this process knows of it.
//
//	        failure of a write or a look
//	open ──────────────────────────────────▶ closed: no write goes there while another part can take it
//	  ▲                                        │
//	  └──────────── a look succeeds ◀──────────┘ a look after a rest, in the background
type part struct {
	index    int
	queue    *fairqueue.Queue
	draining bool
	timeout  time.Duration
	log      *slog.Logger

	mu      sync.Mutex
	waiting int       // messages, when last looked, and those written since
	since   int       // those written since the last look began
	looked  time.Time // when the last look began
	looking bool
	failed  int // looks and writes that failed, in a row; 0 for a part that is open
}

// state returns whether the part is open, and its load. It starts a look in the background if
// what is known is old.
func (p *part) state() (open bool, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := lookInterval
	if p.failed > 0 {
		age = min(longestRest, firstRest<<min(p.failed-1, 10))
		age -= rand.N(age / 4)
	}
	if !p.looking && time.Since(p.looked) > age {
		p.looking, p.looked, p.since = true, time.Now(), 0
		go p.look()
	}
	return p.failed == 0, p.waiting
}

// look asks the part for its load. One that has failed must take messages, too: a replica tells
// the load while its master is down, and so does a full server.
func (p *part) look() {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	p.mu.Lock()
	closed := p.failed > 0
	p.mu.Unlock()
	n, err := p.queue.Len(ctx)
	if err == nil && closed {
		err = p.queue.Ready(ctx)
	}
	p.mu.Lock()
	p.looking = false
	if err == nil {
		p.waiting = n + p.since // some of these may be counted twice, until the next look
	}
	p.mu.Unlock()
	p.note(err)
}

// note notes how a look or a write ended.
func (p *part) note(err error) {
	failed := p.fails(err)
	p.mu.Lock()
	before := p.failed
	switch {
	case failed:
		p.failed++
	case err == nil:
		p.failed = 0
	}
	after := p.failed
	p.mu.Unlock()
	switch {
	case before == 0 && after > 0:
		p.log.Warn("a part of a queue does not answer; writes go to others where they can", "part", p.index, "queue", p.queue.Name(), "error", err)
	case before > 0 && after == 0:
		p.log.Info("a part of a queue answers again", "part", p.index, "queue", p.queue.Name())
	}
}

// fails reports whether an error speaks against the part: not against the argument, and not one
// caller who went away.
func (p *part) fails(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, millrace.ErrBadArgument) &&
		!errors.Is(err, millrace.ErrTooLarge) && !errors.Is(err, fairqueue.ErrGap) && !errors.Is(err, fairqueue.ErrSources) &&
		!errors.Is(err, fairqueue.ErrTenantFull)
}

// added notes a message that is about to be written.
func (p *part) added() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	p.since++
}
