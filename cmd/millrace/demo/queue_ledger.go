package demo

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"github.com/millrace/millrace/fairqueue"
)

// ledger is what the scene itself knows of each message: that it wrote it, and
// what the workers told of it.
type ledger struct {
	mu       sync.Mutex
	messages []*note
	handled  map[side]int // messages, each once
}

// note is one message.
type note struct {
	tenant string
	act    act
	id     string // that its writer got
	trips  map[side]*trip
	done   chan struct{} // closed when the fair side has handled it
}

// trip is what became of a message on one side. Times are in microseconds.
type trip struct {
	id                 string // that a worker got
	written, delivered int64  // for the first time, by the server's clock; 0 if nobody told
	begun, ended       int64  // by a handler, the last one
	told, handled      int    // how often
}

func newLedger() *ledger { return &ledger{handled: map[side]int{}} }

// begin gives numbers to n messages of a tenant that are about to be written.
func (l *ledger) begin(tenant string, in act, n int) (numbers []int, notes []*note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		m := &note{tenant: tenant, act: in, trips: map[side]*trip{fair: {}, line: {}}, done: make(chan struct{})}
		numbers, notes = append(numbers, len(l.messages)), append(notes, m)
		l.messages = append(l.messages, m)
	}
	return numbers, notes
}

// wrote notes the ids that the fair side gave.
func (l *ledger) wrote(notes []*note, written []fairqueue.Written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, m := range notes {
		m.id = written[i].ID //nolint:gosec // there is one for each note
	}
}

// hear takes in what a worker told.
func (l *ledger) hear(text []byte) {
	var news queueNews
	if json.Unmarshal(text, &news) != nil || news.Side != fair && news.Side != line {
		return // not ours: a runtime may print what it likes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[news.Number]
	t := m.trips[news.Side]
	if !news.Done {
		t.id, t.begun = news.ID, news.Now
		if t.told++; !news.Again {
			t.written, t.delivered = news.Written, news.Delivered
		}
		return
	}
	t.ended = news.Now
	if t.handled++; t.handled > 1 {
		return
	}
	if l.handled[news.Side]++; news.Side == fair {
		close(m.done)
	}
}

// counts returns how many messages there are, and how many of them each side has handled.
func (l *ledger) counts() (written, onFair, inLine int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages), l.handled[fair], l.handled[line]
}

// ofTenant counts a tenant's messages.
func (l *ledger) ofTenant(tenant string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.tenant == tenant {
			n++
		}
	}
	return n
}

// positions returns for each message of an act's quiet tenants how many messages of
// others were delivered on one side between its write and its own delivery, in ascending
// order. With a tenant only those of that one count. The server tells deliveries in
// milliseconds, so those of the same one count, too. What was delivered again counts only
// once.
func (l *ledger) positions(on side, in act, of string) (list []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var times []int64
	for _, m := range l.messages {
		if t := m.trips[on]; t.delivered > 0 && (of == "" || m.tenant == of) {
			times = append(times, t.delivered)
		}
	}
	slices.Sort(times)
	for _, m := range l.messages {
		t := m.trips[on]
		if m.act != in || m.tenant == importer || m.tenant == dawdler || t.delivered == 0 {
			continue
		}
		first, _ := slices.BinarySearch(times, t.written+1)
		behind, _ := slices.BinarySearch(times, t.delivered+1)
		n := max(0, behind-first)
		if of == "" && n > 0 {
			n-- // itself
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// mostAtOnce returns how many handlers of one side worked for a tenant at once, at most.
func (l *ledger) mostAtOnce(on side, tenant string) (most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, m := range l.messages {
		if t := m.trips[on]; m.tenant == tenant && t.ended > 0 {
			changes = append(changes, change{t.begun, 1}, change{t.ended, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	now := 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}
