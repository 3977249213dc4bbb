package demo

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// ledger is what the scene itself knows of each message: that it wrote it, and
// what the workers told of it.
type ledger struct {
	mu       sync.Mutex
	messages []*note
	flood    int // messages of the importer
	ahead    int // messages that were not handled yet, at most
	killed   map[int]bool
	handled  map[side]int                      // messages, each once
	waited   map[side]map[bool][]time.Duration // for the first delivery; by whether it is a quiet tenant's
	streams  int                               // one more than the highest stream that a message came from
}

// note is one message.
type note struct {
	quiet bool
	id    string       // that its writer got
	told  string       // that a worker got
	had   []int        // the workers that got it out of the queue, in their order
	done  map[side]int // how often it was handled
}

func newLedger() *ledger {
	return &ledger{
		killed:  make(map[int]bool),
		handled: make(map[side]int),
		waited:  map[side]map[bool][]time.Duration{fair: {}, fifo: {}},
	}
}

// begin gives numbers to n messages that are about to be written.
func (l *ledger) begin(n int, quiet bool) (numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		numbers = append(numbers, len(l.messages))
		l.messages = append(l.messages, &note{quiet: quiet, done: make(map[side]int)})
	}
	if !quiet {
		l.flood += n
	}
	return numbers
}

// wrote notes the ids that the queue gave.
func (l *ledger) wrote(numbers []int, written []fairqueue.Written) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, number := range numbers {
		l.messages[number].id = written[i].ID
	}
}

// floodDue is how many messages the importer has to write now, so that enough wait
// on the slower side.
func (l *ledger) floodDue() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	ahead := len(l.messages) - min(l.handled[fair], l.handled[fifo])
	if l.ahead = max(l.ahead, ahead); ahead >= floodAhead {
		return 0
	}
	return floodAtOnce
}

// hear takes in what a worker told.
func (l *ledger) hear(line []byte) {
	var news queueNews
	if json.Unmarshal(line, &news) != nil || news.Side != fair && news.Side != fifo {
		return // not ours: a runtime may print what it likes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[news.Number]
	if news.Done {
		if m.done[news.Side]++; m.done[news.Side] == 1 {
			l.handled[news.Side]++
		}
		return
	}
	if !news.Again {
		l.waited[news.Side][m.quiet] = append(l.waited[news.Side][m.quiet], news.Waited)
	}
	if news.Side == fair {
		m.told = news.ID
		m.had = append(m.had, news.Worker)
		l.streams = max(l.streams, news.Stream+1)
	}
}

// bury notes that a worker was killed.
func (l *ledger) bury(worker int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed[worker] = true
}

// counts returns how many messages there are, and how many of them were handled
// out of the queue.
func (l *ledger) counts() (written, handled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.messages), l.handled[fair]
}

// fifoHandled reports whether all messages were handled out of the stream.
func (l *ledger) fifoHandled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handled[fifo] == len(l.messages)
}

// pickups returns the time below which the share q of all messages waited for
// their first delivery.
func (l *ledger) pickups(on side, quiet bool, q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return quantile(l.waited[on][quiet], q)
}
