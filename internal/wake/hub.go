package wake

import (
	"context"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// round is for how long a hub blocks at most before it looks whether anybody waits.
	round = time.Second

	// rest is how long a hub leaves a server alone that refused or did not answer.
	rest = 200 * time.Millisecond

	// tags is how many hash tags the lists of processes have. They are few because a fleet
	// remembers for ever where a tag lies.
	tags = 64
)

// Hub wakes those in one process who wait for names: they share one blocking command. It
// is safe for concurrent use.
type Hub struct {
	client rueidis.Client
	logger *slog.Logger
	id     string

	mu      sync.Mutex
	waiting map[string][]*Waiter // by name, who came first is first
	running bool
	refused bool // the logger was told
}

// Waiter is one who waits for a name.
type Waiter struct {
	hub     *Hub
	name    string
	watches bool
	signal  chan struct{}
	woken   bool // since it last began to wait
}

// newHub returns the hub of a process of its own.
func newHub(client rueidis.Client, logger *slog.Logger) *Hub {
	if logger == nil {
		logger = slog.Default()
	}
	return &Hub{client: client, logger: logger, id: strconv.FormatUint(rand.Uint64(), 36), waiting: map[string][]*Waiter{}}
}

// ID names this process to those who are to wake it: letters and digits.
func (h *Hub) ID() string { return h.id }

// listKey is the list in which a process is told names.
func listKey(id string) string {
	return "mr:wake:{" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(id))%tags)) + "}:" + id
}

// Join has the caller be woken for a name from now on, until it leaves. Of several who
// wait for one name, all that watch are woken, and of the others the first: those want
// what only one can have. Nothing is asked of Redis before somebody waits.
func (h *Hub) Join(name string, watches bool) *Waiter {
	w := &Waiter{hub: h, name: name, watches: watches, signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[name] = append(h.waiting[name], w)
	return w
}

// Wait returns when the waiter is woken, also if that was before the call, when most has
// passed, or when ctx ends. It reports whether it was woken.
func (w *Waiter) Wait(ctx context.Context, most time.Duration) bool {
	w.woken = false
	w.hub.start()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.signal:
		w.woken = true
	case <-timer.C:
	case <-ctx.Done():
	}
	return w.woken
}

// Leave ends the waiting. Who was woken and could not use it has the next one be woken in
// its place.
func (w *Waiter) Leave(used bool) {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.waiting[w.name], func(other *Waiter) bool { return other == w })
	if len(left) > 0 {
		h.waiting[w.name] = left
	} else {
		delete(h.waiting, w.name)
	}
	if !used && (w.woken || len(w.signal) > 0) {
		h.wakeOne(w.name)
	}
}

// wakeOne wakes the first of those who want what only one can have. The mutex is held.
func (h *Hub) wakeOne(name string) {
	for _, w := range h.waiting[name] {
		if !w.watches && w.wake() {
			return
		}
	}
}

// wake wakes a waiter, and reports false for one that is awake already.
func (w *Waiter) wake() bool {
	select {
	case w.signal <- struct{}{}:
		return true
	default:
		return false
	}
}

// deliver wakes who waits for a name.
func (h *Hub) deliver(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiting[name] {
		if w.watches {
			w.wake()
		}
	}
	h.wakeOne(name)
}

// start has the hub block for those who wait, if it does not yet.
func (h *Hub) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		h.running = true
		go h.run()
	}
}

// stops reports whether nobody waits any more; then the hub has stopped.
func (h *Hub) stops() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.waiting) > 0
	return !h.running
}

func (h *Hub) run() {
	for !h.stops() {
		h.take()
	}
}

// take blocks until there are names, and wakes who waits for them.
func (h *Hub) take() {
	ctx := context.Background()
	key := listKey(h.id)
	name, ok, err := pop(ctx, h.client, key, round)
	if err != nil {
		h.tell(err)
		retry.Sleep(ctx, rest) // those who wait look again by themselves
	}
	if !ok {
		return
	}
	h.deliver(name)
	ctx, cancel := script.Within(ctx, round)
	defer cancel()
	more, _ := h.client.Do(ctx, h.client.B().Lpop().Key(key).Count(page).Build()).AsStrSlice() // none is an error, too
	for _, name := range more {
		h.deliver(name)
	}
}

// page is how many names a hub takes at once behind the first.
const page = 1000

// tell logs once that the server refuses.
func (h *Hub) tell(err error) {
	if !retry.Code(err, "NOPERM") {
		return
	}
	h.mu.Lock()
	told := h.refused
	h.refused = true
	h.mu.Unlock()
	if !told {
		h.logger.Warn("nobody can wake this process, so that it looks once a second: allow BLPOP, LPOP and LPUSH of mr:wake:*", "error", err)
	}
}
