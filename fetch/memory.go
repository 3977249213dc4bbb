package fetch

import (
	"sync"
	"time"
)

// memory is what this process remembers of keys: the last value and the last failure, for
// when Redis cannot be asked. It is bounded in bytes; what was not used for longest goes
// first.
type memory struct {
	most int // bytes; none are remembered below 1

	mu    sync.Mutex
	bytes int
	of    map[string]*memo
	ring  memo // in order of use: its older is the one used last, its newer the one not used for longest
}

// memo is what is remembered of one key.
type memo struct {
	key  string
	last entry     // its time left is that at the moment seen
	seen time.Time // when Redis had it, or when it was computed

	failure error
	until   time.Time // when the failure is forgotten

	older, newer *memo
}

// memoCost is about what one takes beside its key and its value.
const memoCost = 300

func (m *memo) size() int { return memoCost + len(m.key) + len(m.last.payload) }

func newMemory(most int) *memory {
	m := &memory{most: most, of: map[string]*memo{}}
	m.ring.older, m.ring.newer = &m.ring, &m.ring
	return m
}

// recalled is what is remembered of a key now.
type recalled struct {
	last    entry         // not found if there is none, or its time is over
	age     time.Duration // how long ago it was seen
	failure error         // nil if none is remembered
}

// recall returns what is remembered of a key.
func (m *memory) recall(key string) recalled {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.of[key]
	if found == nil {
		return recalled{}
	}
	m.use(found)
	now := time.Now()
	r := recalled{last: found.last, age: now.Sub(found.seen)}
	if r.last.left -= r.age; r.last.left <= 0 {
		r.last = entry{}
	}
	if now.Before(found.until) {
		r.failure = found.failure
	}
	return r
}

// note remembers what was found or computed, and that this ended a failure.
func (m *memory) note(key string, e entry) {
	m.change(key, func(found *memo) { found.last, found.seen, found.failure = e, time.Now(), nil })
}

// fail remembers that a load failed, for so long.
func (m *memory) fail(key string, err error, most time.Duration) {
	m.change(key, func(found *memo) { found.failure, found.until = err, time.Now().Add(most) })
}

func (m *memory) change(key string, do func(*memo)) {
	if m.most <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.of[key]
	if found == nil {
		found = &memo{key: key}
		m.of[key] = found
	} else {
		m.bytes -= found.size()
	}
	m.use(found)
	do(found)
	if len(found.last.payload) > m.most/16 { // it would push out too many others
		found.last = entry{}
	}
	m.bytes += found.size()
	for m.bytes > m.most && len(m.of) > 1 {
		m.drop(m.ring.newer)
	}
}

// forget forgets a key.
func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.of[key]; found != nil {
		m.drop(found)
	}
}

// use makes one that which was used last. The mutex is held.
func (m *memory) use(found *memo) {
	found.unlink()
	found.older, found.newer = m.ring.older, &m.ring
	found.older.newer, found.newer.older = found, found
}

// drop forgets one. The mutex is held.
func (m *memory) drop(found *memo) {
	found.unlink()
	delete(m.of, found.key)
	m.bytes -= found.size()
}

// unlink takes one out of the ring, if it is in it.
func (m *memo) unlink() {
	if m.older != nil {
		m.older.newer, m.newer.older = m.newer, m.older
	}
}
