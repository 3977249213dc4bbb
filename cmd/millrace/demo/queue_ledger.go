package demo

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/must"
)

// queueLedger is the scene's own record of each message that it wrote, with the workers'
// reports.
type queueLedger struct {
	mu       sync.Mutex
	messages []*queueMessage
	done     [2]int // messages that were handled, by side
}

type queueMessage struct {
	number  int
	tenant  string
	flooded bool // it was written in the flood
	sides   [2]queueTrip
	begun   time.Time
	done    chan struct{} // closed when a worker of the fair queue has handled it
}

// queueTrip is the way of a message through one queue.
type queueTrip struct {
	writtenID, deliveredID string
	written, delivered     int64 // the first time
	begun, ended           int64 // by a handler, the last time
	deliveries, handled    int
}

// begin enters n messages that are about to be written.
func (l *queueLedger) begin(tenant string, flooded bool, n int) (messages []*queueMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		m := &queueMessage{number: len(l.messages), tenant: tenant, flooded: flooded, begun: time.Now(), done: make(chan struct{})}
		l.messages, messages = append(l.messages, m), append(messages, m)
	}
	return messages
}

// wrote enters the ids that a queue gave to messages.
func (l *queueLedger) wrote(side int, messages []*queueMessage, written []fairqueue.Written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range written {
		messages[i].sides[side].writtenID = w.ID
	}
}

// hear enters the report of a worker.
func (l *queueLedger) hear(r queueReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[r.Number]
	t := &m.sides[r.Side]
	if !r.Done {
		t.deliveredID, t.begun = r.ID, r.Now
		if t.deliveries++; !r.Again {
			t.written, t.delivered = r.Written, r.Delivered
		}
		return
	}
	t.ended = r.Now
	if t.handled++; t.handled == 1 {
		if l.done[r.Side]++; r.Side == 0 {
			close(m.done)
		}
	}
}

// counts returns how many messages were written, and handled on each side.
func (l *queueLedger) counts() (written, fair, line int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages), l.done[0], l.done[1]
}

// waiting is how many messages are not handled, on the side that has more.
func (l *queueLedger) waiting() int {
	written, fair, line := l.counts()
	return written - min(fair, line)
}

// open returns how many of these messages were not handled yet, on both sides.
func (l *queueLedger) open(messages []*queueMessage) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		for _, t := range m.sides {
			if t.handled == 0 {
				n++
			}
		}
	}
	return n
}

// quiet returns how many messages of quiet tenants were handled on one side, of how many, and how long
// the last 50 have waited, or wait, for a handler: the median.
func (l *queueLedger) quiet(side int) (handled, all int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var waits []time.Duration
	for _, m := range l.messages {
		t := m.sides[side]
		if m.tenant == flooder || m.tenant == slowpoke || t.writtenID == "" {
			continue
		}
		if all++; t.handled > 0 {
			handled++
		}
		if t.delivered > 0 {
			waits = append(waits, time.Duration(t.delivered-t.written)*time.Microsecond)
		} else {
			waits = append(waits, time.Since(m.begun))
		}
	}
	return handled, all, must.Quantile(waits[max(0, len(waits)-50):], 0.5)
}

// lost returns how many messages the fair queue lost, and names them.
func (l *queueLedger) lost(fail func(string, ...any)) (n int) {
	for _, m := range l.messages {
		if t := m.sides[0]; t.handled == 0 || t.deliveredID != t.writtenID {
			n++
			fail("message %v was written as %q, delivered %v times as %q, and handled %v times", m.number, t.writtenID, t.deliveries, t.deliveredID, t.handled)
		}
	}
	return n
}

// count returns how many messages are of a kind.
func (l *queueLedger) count(is func(*queueMessage) bool) (n int) {
	for _, m := range l.messages {
		if is(m) {
			n++
		}
	}
	return n
}

// queueWaits is how the messages of quiet tenants waited: how many messages were delivered
// first, and how long it took.
type queueWaits struct {
	ahead   []int
	pickups []time.Duration
}

func (w queueWaits) most() int { return slices.Max(append([]int{0}, w.ahead...)) }

// waits returns how the messages of quiet tenants waited on one side. It counts messages of
// one other tenant, or of all, that were delivered between the write and the delivery.
// Servers tell times in milliseconds, so those of the same millisecond count as well.
func (l *queueLedger) waits(side int, flooded bool, tenant string) (w queueWaits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var times []int64
	for _, m := range l.messages {
		if t := m.sides[side]; t.delivered > 0 && (tenant == "" || m.tenant == tenant) {
			times = append(times, t.delivered)
		}
	}
	slices.Sort(times)
	for _, m := range l.messages {
		t := m.sides[side]
		if m.flooded != flooded || m.tenant == flooder || m.tenant == slowpoke || t.delivered == 0 {
			continue
		}
		from, _ := slices.BinarySearch(times, t.written+1)
		to, _ := slices.BinarySearch(times, t.delivered+1)
		ahead := max(0, to-from)
		if tenant == "" && ahead > 0 {
			ahead-- // the message itself
		}
		w.ahead = append(w.ahead, ahead)
		w.pickups = append(w.pickups, time.Duration(t.delivered-t.written)*time.Microsecond)
	}
	return w
}

// mostAtOnce returns how many handlers of one side worked for a tenant at the same time.
func (l *queueLedger) mostAtOnce(side int, tenant string) (most int) {
	type change struct {
		at int64
		by int
	}
	var changes []change
	for _, m := range l.messages {
		if t := m.sides[side]; m.tenant == tenant && t.ended > 0 {
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
