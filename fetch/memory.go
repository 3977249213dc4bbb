package fetch

import (
	"container/list"
	"sync"
	"time"
)

// memory is this process's memory of keys for outages: the last value and the last failure.
// It is bounded in bytes, and drops the least recently used keys first.
type memory struct {
	most int // bytes; below 1 it remembers nothing

	mu      sync.Mutex
	forgets uint64 // how many times a key was forgotten
	bytes   int
	of      map[string]*list.Element
	order   *list.List // of *memo, the most recently used first
}

type memo struct {
	key  string
	last entry     // its time left is that at the moment seen
	seen time.Time // when it was read from Redis or computed

	failure error
	until   time.Time // when the failure expires
}

// memoCost is about how many bytes a memo takes besides its key and value.
const memoCost = 300

func (m *memo) size() int { return memoCost + len(m.key) + len(m.last.payload) }

func (m *memo) set(e entry) { m.last, m.seen, m.failure = e, time.Now(), nil }

func newMemory(most int) *memory {
	return &memory{most: most, of: map[string]*list.Element{}, order: list.New()}
}

type recalled struct {
	last    entry         // not found if there is none, or if it has expired
	age     time.Duration // since it was seen
	failure error         // nil for none
}

// recall returns the memory of a key.
func (m *memory) recall(key string) recalled {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.of[key]
	if at == nil {
		return recalled{}
	}
	m.order.MoveToFront(at)
	found, now := at.Value.(*memo), time.Now() //nolint:forcetypeassert // it has only memos
	r := recalled{last: found.last, age: now.Sub(found.seen)}
	if r.last.left -= r.age; r.last.left <= 0 {
		r.last = entry{}
	}
	if now.Before(found.until) {
		r.failure = found.failure
	}
	return r
}

// note remembers an entry, which ends a failure.
func (m *memory) note(key string, e entry) {
	m.change(key, func(found *memo) { found.set(e) })
}

// fail remembers the error of a load for some time.
func (m *memory) fail(key string, err error, most time.Duration) {
	m.change(key, func(found *memo) { found.failure, found.until = err, time.Now().Add(most) })
}

// noteSeen is note for an entry that was read from Redis. It does nothing if any key was forgotten
// in this process since then, because the entry may be older than that.
func (m *memory) noteSeen(key string, e entry, since uint64) {
	m.change(key, func(found *memo) {
		if m.forgets == since {
			found.set(e)
		}
	})
}

// forgotten returns how many times a key was forgotten in this process.
func (m *memory) forgotten() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgets
}

func (m *memory) change(key string, do func(*memo)) {
	if m.most <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[key] == nil {
		found := &memo{key: key}
		m.of[key] = m.order.PushFront(found)
		m.bytes += found.size()
	}
	at := m.of[key]
	m.order.MoveToFront(at)
	found := at.Value.(*memo) //nolint:forcetypeassert // it has only memos
	m.bytes -= found.size()
	do(found)
	if len(found.last.payload) > m.most/16 { // it would displace too many others
		found.last = entry{}
	}
	m.bytes += found.size()
	for m.bytes > m.most && len(m.of) > 1 {
		m.drop(m.order.Back())
	}
}

func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgets++
	if at := m.of[key]; at != nil {
		m.drop(at)
	}
}

// drop drops a memo. The mutex is held.
func (m *memory) drop(at *list.Element) {
	found := m.order.Remove(at).(*memo) //nolint:forcetypeassert // it has only memos
	delete(m.of, found.key)
	m.bytes -= found.size()
}
