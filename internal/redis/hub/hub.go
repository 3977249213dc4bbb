package hub

import (
	"context"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/wake"
)

const (
	// blockTimeout is how long a hub blocks before it checks whether it has waiters.
	blockTimeout = time.Second

	// pause is how long a hub waits after an error.
	pause = 200 * time.Millisecond

	// tags is how many hash tags the lists of processes have. They are few, because a fleet
	// stores for ever where a tag lies.
	tags = 64

	// page is how many names a hub takes at once after the first.
	page = 1000

	// maxHubs is how many hubs are kept.
	maxHubs = 64
)

// Hub wakes the waiters of one process: they share one blocking command. It is safe for
// concurrent use.
type Hub struct {
	client rueidis.Client
	logger *slog.Logger
	id     string

	mu      sync.Mutex
	waiting map[string][]*Waiter // by name, in the order of their Joins
	running bool
	refused bool // it has logged that the server refuses
}

// Waiter waits for a name.
type Waiter struct {
	hub     *Hub
	name    string
	watches bool
	signal  chan struct{}
	woken   bool // since the start of its last Wait
}

// hubs are those of the clients that were used last. It is global because the users of a
// client share nothing else.
var hubs struct {
	mu      sync.Mutex
	of      map[rueidis.Client]*Hub
	clients []rueidis.Client // oldest first
}

// Of returns the client's hub, and does no I/O. The hub logs once if the server refuses its
// commands, to the first caller's logger or slog.Default().
func Of(client rueidis.Client, logger *slog.Logger) *Hub {
	if logger == nil {
		logger = slog.Default()
	}
	hub := &Hub{client: client, logger: logger, id: strconv.FormatUint(rand.Uint64(), 36), waiting: map[string][]*Waiter{}}
	if client == nil || !reflect.ValueOf(client).Comparable() {
		return hub
	}
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	if h := hubs.of[client]; h != nil {
		return h
	}
	if hubs.of == nil {
		hubs.of = map[rueidis.Client]*Hub{}
	}
	if len(hubs.clients) == maxHubs {
		delete(hubs.of, hubs.clients[0])
		hubs.clients = slices.Delete(hubs.clients, 0, 1)
	}
	hubs.of[client] = hub
	hubs.clients = append(hubs.clients, client)
	return hub
}

// ID is the name of this process for those that wake it: letters and digits.
func (h *Hub) ID() string { return h.id }

// listKey is the list of a process.
func listKey(id string) string {
	return "mr:wake:{" + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(id))%tags)) + "}:" + id
}

// Join registers a waiter for a name until it leaves. A wake-up wakes all waiters that watch, and
// the first of the others, which wait for something that only one can have. Join does no I/O.
func (h *Hub) Join(name string, watches bool) *Waiter {
	w := &Waiter{hub: h, name: name, watches: watches, signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[name] = append(h.waiting[name], w)
	return w
}

// Wait returns when the waiter is woken, also by a wake-up before the call, after the timeout
// most, or when ctx ends. It reports whether the waiter was woken.
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

// Leave removes the waiter. If it was woken and did not use that, the next waiter is woken.
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
		h.wakeFirst(w.name)
	}
}

// deliver wakes the waiters for a name.
func (h *Hub) deliver(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiting[name] {
		if w.watches {
			w.wake()
		}
	}
	h.wakeFirst(name)
}

// wakeFirst wakes the first waiter that does not watch. Call it with mu held.
func (h *Hub) wakeFirst(name string) {
	for _, w := range h.waiting[name] {
		if !w.watches && w.wake() {
			return
		}
	}
}

// wake wakes a waiter. It reports false if that is awake already.
func (w *Waiter) wake() bool {
	select {
	case w.signal <- struct{}{}:
		return true
	default:
		return false
	}
}

// start starts the blocking command unless it runs.
func (h *Hub) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		h.running = true
		go func() {
			for h.needed() {
				h.take()
			}
		}()
	}
}

// needed reports whether the hub has waiters. If not, it stops.
func (h *Hub) needed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.waiting) > 0
	return h.running
}

// take blocks until there are names, and wakes their waiters.
func (h *Hub) take() {
	ctx := context.Background()
	key := listKey(h.id)
	name, ok, err := wake.Pop(ctx, h.client, key, blockTimeout)
	if err != nil {
		h.logRefusal(err)
		retry.Sleep(ctx, pause) // waiters check again after their timeouts
	}
	if !ok {
		return
	}
	h.deliver(name)
	ctx, cancel := script.Within(script.Losable(ctx), blockTimeout)
	defer cancel()
	more, _ := h.client.Do(ctx, h.client.B().Lpop().Key(key).Count(page).Build()).AsStrSlice() // an empty list is an error, too
	for _, name := range more {
		h.deliver(name)
	}
}

// logRefusal logs once that the server refuses the commands.
func (h *Hub) logRefusal(err error) {
	if !retry.Code(err, "NOPERM") {
		return
	}
	h.mu.Lock()
	logged := h.refused
	h.refused = true
	h.mu.Unlock()
	if !logged {
		h.logger.Warn("wake-ups are not permitted, so this process polls once a second: allow BLPOP, LPOP and LPUSH of mr:wake:*", "error", err)
	}
}
