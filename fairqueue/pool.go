package fairqueue

import (
	"slices"
	"sync"

	"github.com/millrace/millrace"
)

// Pool is a number of handlers that several runs of [Queue.Consume] share, for a process that
// reads several queues: see [ConsumeConfig].Pool. A free handler goes to the queues in turn, so
// a flooded queue does not keep it from the others. It is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	size    int
	free    int
	members []*slots // the first one is the next to get a slot
}

// NewPool returns a pool of so many handlers, 1 to 1,000. Errors: [millrace.ErrBadArgument].
func NewPool(handlers int) (*Pool, error) {
	if handlers < 1 || handlers > maxConcurrency {
		return nil, millrace.ErrBadArgument.Errorf("a pool has 1 to %d handlers, not %d", maxConcurrency, handlers)
	}
	return &Pool{size: handlers, free: handlers}, nil
}

// slots are the handlers that one run of Consume has of a pool, besides those that run. A nil
// one has as many as it wants.
type slots struct {
	pool *Pool
	kick func() // called when it gets one

	wants, holds int
}

func (p *Pool) join(kick func()) *slots {
	if p == nil {
		return nil
	}
	s := &slots{pool: p, kick: kick}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, s)
	return s
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

// share returns how many handlers are this run's on average, which the queue is told.
func (s *slots) share() int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	n := max(1, len(s.pool.members))
	return (s.pool.size + n - 1) / n
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
