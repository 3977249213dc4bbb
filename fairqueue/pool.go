package fairqueue

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace"
)

// Pool is a number of handlers that several runs of [Queue.Consume] share, for a process that
// reads several queues: see [ConsumeConfig].Pool. A free handler goes to the queues in turn, so
// a flooded queue does not keep it from the others. It is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	size    int
	free    int
	queues  []*Queue // that share it, if they are known; never changes
	members []*slots // the first one is the next to get a slot

	// A tenant may be alone in one of the queues and keep handlers from tenants of another one.
	tenant        string        // of the last message
	since, others time.Time     // of its last message, and of the last one of another tenant; it may have missed some before it began
	alone         time.Duration // after which a tenant without others is alone
}

// NewPool returns a pool of so many handlers, 1 to 1,000. If it knows the queues that will share it, none of them
// gets a larger share before the others have joined, and a named worker of [Queue.Read] is known in all of them when
// it reads the first one. Errors: [millrace.ErrBadArgument].
func NewPool(handlers int, queues ...*Queue) (*Pool, error) {
	if handlers < 1 || handlers > maxConcurrency {
		return nil, millrace.ErrBadArgument.Errorf("a pool has 1 to %d handlers, not %d", maxConcurrency, handlers)
	}
	now := time.Now()
	return &Pool{size: handlers, free: handlers, queues: queues, since: now, others: now, alone: time.Minute}, nil
}

func (p *Pool) expected() []*Queue {
	if p == nil {
		return nil
	}
	return p.queues
}

// slots are the free handlers of a pool that one run of Consume holds. A nil one has no
// bound.
type slots struct {
	pool   *Pool
	kick   func() // called when it gets one
	forget func() // called when its share is another one

	wants, holds int
}

func (p *Pool) join(kick, forget func()) *slots {
	if p == nil {
		return nil
	}
	s := &slots{pool: p, kick: kick, forget: forget}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, s)
	p.reshare()
	return s
}

// reshare has all members tell their queues their share. Call it with mu held.
func (p *Pool) reshare() {
	for _, s := range p.members {
		s.forget()
	}
}

// leave gives all slots back.
func (s *slots) leave() {
	if s == nil {
		return
	}
	s.set(0)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.members = slices.DeleteFunc(s.pool.members, func(other *slots) bool { return other == s })
	s.pool.reshare()
}

// set says how many slots are wanted, and returns how many there are.
func (s *slots) set(wants int) int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.wants = wants
	if extra := s.holds - wants; extra > 0 {
		s.holds = wants
		s.pool.free += extra
	}
	s.pool.deal(s)
	return s.holds
}

// take uses a slot for a handler, if there is one.
func (s *slots) take() bool {
	if s == nil {
		return true
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.holds == 0 {
		return false
	}
	s.holds--
	s.wants--
	return true
}

// done gives the slot of a handler back.
func (s *slots) done() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.free++
	s.pool.deal(nil)
}

// of returns the pool, nil without one.
func (s *slots) of() *Pool {
	if s == nil {
		return nil
	}
	return s.pool
}

// share returns the run's average number of handlers, at most its own number. The run reports it to the queue.
func (s *slots) share(own int) float64 {
	if s == nil {
		return float64(own)
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	share := float64(s.pool.size) / float64(max(1, len(s.pool.queues), len(s.pool.members)))
	return min(float64(own), math.Round(share*1e6)/1e6) // the queue rounds the sum to thousandths
}

// noTenant is the flow of no tenant.
const noTenant = "-"

// only returns the flow of the only tenant that may be alone in the queue, because the pool had a message of no other one
// lately, in any of its queues; "" if it had none.
func (s *slots) only() string {
	if s == nil {
		return ""
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	switch p := s.pool; {
	case time.Since(p.others) < p.alone:
		return noTenant
	case time.Since(p.since) < p.alone:
		return tenantFlow(p.tenant)
	}
	return ""
}

// saw notes whose messages the pool has.
func (s *slots) saw(messages []Message) {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for _, m := range messages {
		if m.Tenant != s.pool.tenant {
			s.pool.tenant, s.pool.others = m.Tenant, s.pool.since
		}
		s.pool.since = time.Now()
	}
}

// deal deals free slots out, one to each member in turn. It wakes those that get one, but not
// the caller. Call it with mu held.
func (p *Pool) deal(caller *slots) {
	var woken []*slots
	for p.free > 0 {
		i := slices.IndexFunc(p.members, func(s *slots) bool { return s.holds < s.wants })
		if i < 0 {
			break
		}
		s := p.members[i]
		s.holds++
		p.free--
		p.members = append(slices.Delete(p.members, i, i+1), s)
		if s != caller && !slices.Contains(woken, s) {
			woken = append(woken, s)
		}
	}
	for _, s := range woken {
		s.kick()
	}
}
