package parts

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
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

	// A read waits for the answer of a part for twice as long as the last one took, and for
	// leastWait at least. Then it asks the next part, too.
	leastWait = 50 * time.Millisecond
)

// state says which calls a part can serve.
type state int

const (
	open   state = iota // it takes messages, and is read
	full                // it takes none, because its server is full, and is read
	silent              // it does not answer, or cannot be used
)

// part is a queue and this process's view of it.
//
//	open ──▶ full     a write or a look is refused
//	open ──▶ silent   a write, a read or a look fails
//	full, silent ──▶ the result of a look, after a rest, in the background
//
// No write goes to a part that is not open while another one can take it, and no read to one that is silent.
type part struct {
	index    int
	queue    *fairqueue.Queue
	draining bool
	timeout  time.Duration
	log      *slog.Logger

	mu      sync.Mutex
	state   state
	failed  int           // looks, reads and writes that failed since it was open
	failure error         // the last of them
	wait    time.Duration // how long reads wait for its answer before they ask the next part, too
	waiting int           // messages, when last looked, and those written since
	since   int           // those written since the last look began
	looked  time.Time     // when the last look began
	looking bool
}

// look returns the part's state, and its load. It starts a look in the background if its data is old.
func (p *part) look() (now state, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := lookInterval
	if p.failed > 0 {
		age = min(longestRest, firstRest<<min(p.failed-1, 10))
		age -= rand.N(age / 4)
	}
	if !p.looking && time.Since(p.looked) > age {
		p.looking, p.looked, p.since = true, time.Now(), 0
		go p.find(p.state)
	}
	return p.state, p.waiting
}

// find asks the part for its load. A part that is not open must take messages, too: a replica reports its load
// while its master is down, and so does a full server.
func (p *part) find(before state) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	n, err := p.queue.Len(ctx)
	if err == nil && before != open {
		err = p.queue.Ready(ctx)
	}
	p.mu.Lock()
	p.looking = false
	if err == nil {
		p.waiting = n + p.since // some of these may be counted twice, until the next look
	}
	p.mu.Unlock()
	if err != nil || before != open {
		p.note(err)
	}
}

// note notes how a look that shows whether the part takes messages, a write, or a read that failed ended.
func (p *part) note(err error) {
	if err != nil && !fails(err) {
		return
	}
	p.mu.Lock()
	before := p.state
	switch {
	case err == nil:
		p.state, p.failed, p.failure = open, 0, nil
	case errors.Is(err, millrace.ErrFull):
		p.state, p.failed, p.failure = full, p.failed+1, err
	default:
		p.state, p.failed, p.failure = silent, p.failed+1, err
	}
	after := p.state
	p.mu.Unlock()
	if before == after {
		return
	}
	log := p.log.With("part", p.index, "queue", p.queue.Name())
	switch after {
	case open:
		log.Info("a part of a queue takes messages again")
	case full:
		log.Warn("a part of a queue is full, and is read; writes go to others where they can", "error", err)
	case silent:
		log.Warn("a part of a queue does not answer; writes and reads go to others where they can", "error", err)
	}
}

// fails reports whether an error speaks against the part: not against the argument, and not for a
// caller that went away.
func fails(err error) bool {
	return !slices.ContainsFunc([]error{
		context.Canceled, millrace.ErrBadArgument, millrace.ErrTooLarge, fairqueue.ErrGap, fairqueue.ErrSources, fairqueue.ErrTenantFull, fairqueue.ErrBatch,
		fairqueue.ErrEmpty, fairqueue.ErrPaused,
	}, func(harmless error) bool { return errors.Is(err, harmless) })
}

// waits returns how long a read waits for the part before it asks the next one, too.
func (p *part) waits() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(leastWait, p.wait)
}

// answered notes how long an answer took. A part that is slow is waited for, since it would never be read while
// others always have messages; one that is silent all of a sudden is not.
func (p *part) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait = max(2*took, p.wait/2)
}

// added notes a message that is about to be written.
func (p *part) added() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	p.since++
}
