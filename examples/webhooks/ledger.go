package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// event is the body of a webhook.
type event struct {
	Number int `json:"number"`
}

// numberOf reads the number of a webhook from its body.
func numberOf(body []byte) (int, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return 0, fmt.Errorf("read a webhook: %w", err)
	}
	return e.Number, nil
}

// hook is what is known of one webhook.
type hook struct {
	tenant   string
	together bool // it was posted while the noisy tenant was there
	posted   time.Time
	id       string        // that the service gave it; empty until it was accepted
	received int           // how often
	took     time.Duration // from the post until it was first received
	reason   string        // why it is in the dead letters; empty when it is not
}

// ledger is the books: what was posted, received and given up.
type ledger struct {
	mu        sync.Mutex
	hooks     []*hook
	repeated  int            // posts that were made again under the same key
	otherID   int            // of these, that got another id than the first
	forgeries int            // deliveries with a signature that is not good
	failures  map[string]int // attempts that failed, by why
	strays    []string       // dead letters that nobody posted
}

func newLedger() *ledger { return &ledger{failures: make(map[string]int)} }

// post returns the number of a webhook that is about to be posted.
func (l *ledger) post(tenant string, together bool) (number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hooks = append(l.hooks, &hook{tenant: tenant, together: together, posted: time.Now()})
	return len(l.hooks) - 1
}

// accepted notes the id that a post got, the first or a repeated one.
func (l *ledger) accepted(number int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hooks[number]
	switch h.id {
	case "":
		h.id = id
		return
	case id:
	default:
		l.otherID++
	}
	l.repeated++
}

func (l *ledger) received(number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hooks[number]
	if h.received++; h.received == 1 {
		h.took = time.Since(h.posted)
	}
}

func (l *ledger) forged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgeries++
}

func (l *ledger) failed(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[why]++
}

// dead notes a dead letter.
func (l *ledger) dead(letter fairqueue.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, err := numberOf(letter.Body)
	if err != nil || number < 0 || number >= len(l.hooks) || l.hooks[number].id != letter.ID {
		l.strays = append(l.strays, letter.ID)
		return
	}
	l.hooks[number].reason = letter.Reason
}

// delays returns how long webhooks took for which keep holds, in ascending order.
func (l *ledger) delays(keep func(*hook) bool) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []time.Duration
	for _, h := range l.hooks {
		if h.received > 0 && keep(h) {
			list = append(list, h.took)
		}
	}
	slices.Sort(list)
	return list
}

// quantile returns the time below which the share q of sorted times lie.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}
