package fairqueue

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// reader is a run of Consume, or a named worker of Read, as it reports itself.
type reader struct {
	id, name, host string
	handlers       float64 // 0 for one that leaves
	busy           int
	lingers        bool // it may be working on its last messages
}

// registration is a reader of this process. Its queue knows it before it has a message: the calls that take messages say with
// which roll their readers are registered, and are refused if the queue has another one.
type registration struct {
	report func() reader
	slots  *slots // of a Pool; nil without one
	roll   atomic.Pointer[string]
	known  atomic.Bool // the queue knew it as of its last report
}

// forget has the next call register the reader again.
func (m *registration) forget() { m.roll.Store(new(string)) }

// anyone stands for the roll in calls for readers without a name.
const anyone = "r"

// taking returns for which readers a call takes messages: the roll with which the readers of requests are registered, or anyone; and
// the flow of the only tenant that may be alone, or "" for any.
func taking(requests []workRequest) (roll, only string) {
	roll = anyone
	for _, r := range requests {
		if r.max == 0 || r.reader == nil {
			continue
		}
		known := ""
		if p := r.reader.roll.Load(); p != nil {
			known = *p
		}
		switch {
		case roll == anyone:
			roll, only = known, r.reader.slots.only()
		case roll != known:
			roll = "" // which no queue has
		}
		if other := r.reader.slots.only(); other != only {
			only = noTenant
		}
	}
	return roll, only
}

// register registers the readers of requests.
func register(ctx context.Context, requests []workRequest) error {
	done := map[*registration]bool{}
	for _, r := range requests {
		if r.max == 0 || r.reader == nil || done[r.reader] {
			continue
		}
		done[r.reader] = true
		if _, err := r.q.beat(ctx, defaultVisibility, r.reader, nil); errors.Is(err, errLeft) {
			for i := range requests {
				if requests[i].reader == r.reader { // whose caller has gone, too: it takes nothing, and the others do
					requests[i].max = 0
				}
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// errLeft is the answer for a reader that lingers and left through another process.
var errLeft = errors.New("the reader has left")

// beat extends deliveries. With a reader it also registers that, or removes it if it has no handlers. One that only lingers is
// not registered if the queue does not know it: it has left through another process.
func (q *Queue) beat(ctx context.Context, visibility time.Duration, m *registration, receipts []receipt) ([]bool, error) {
	good := make([]bool, 0, len(receipts))
	var r reader
	var known *string
	if m != nil {
		known = m.roll.Load()
		r = m.report()
	}
	handlers := strconv.FormatFloat(r.handlers, 'f', -1, 64)
	for first := true; first || len(receipts) > 0; first = false {
		n := min(len(receipts), ackPage)
		args := []string{millis(visibility), r.id, handlers, strconv.Itoa(r.busy), r.name, r.host, flag(r.lingers)}
		for _, receipt := range receipts[:n] {
			args = append(args, receipt.handle())
		}
		reply, err := q.call(ctx, "beat", args...)
		if err != nil {
			return good, err
		}
		roll := reply.Text()
		if m != nil {
			m.roll.CompareAndSwap(known, &roll) // unless its share has changed meanwhile
			m.known.Store(roll != "")
		}
		for range n {
			good = append(good, !reply.None() && reply.Bool())
		}
		if reply.Err() != nil {
			return good, reply.Err()
		}
		if r.lingers && !reply.None() && roll == "" {
			return good, errLeft
		}
		receipts = receipts[n:]
	}
	return good, nil
}

// workers are the named workers that read a queue through this process.
type workers struct {
	mu sync.Mutex
	of map[string]*worker
}

// worker is a named worker of Read. It is reported while it reads, and then for as long as it may work on its last messages,
// a minute at most.
type worker struct {
	registration

	handlers int       // by workers.mu, as the fields below
	reading  int       // calls of Read
	until    time.Time // it counts as there, if none is going on
}

// enter returns the worker that a read names, nil for none, and a function to call when the read ends. A new one is known in
// all queues of its Pool.
func (q *Queue) enter(cfg ReadConfig) (m *registration, leave func()) {
	if cfg.Worker == "" {
		return nil, func() {}
	}
	w, isNew := q.worker(cfg, 1)
	if isNew {
		q.keep(cfg.Worker, w, beatInterval) // its first call registers it
		for _, other := range cfg.Pool.expected() {
			if w, isNew := other.worker(cfg, 0); isNew {
				other.keep(cfg.Worker, w, 0)
			}
		}
	}
	return &w.registration, func() {
		q.shared.workers.mu.Lock()
		defer q.shared.workers.mu.Unlock()
		w.reading--
		w.stays(cfg)
	}
}

// worker returns the worker of a name, with so many more reads.
func (q *Queue) worker(cfg ReadConfig, reads int) (w *worker, isNew bool) {
	all := &q.shared.workers
	all.mu.Lock()
	defer all.mu.Unlock()
	w = all.of[cfg.Worker]
	if w != nil && w.slots.of() != cfg.Pool {
		w.slots.leave()
		w = nil
	}
	if isNew = w == nil; isNew {
		w = q.newWorker(cfg)
		if all.of == nil {
			all.of = map[string]*worker{}
		}
		all.of[cfg.Worker] = w
	}
	if w.handlers != cfg.Concurrency {
		w.handlers = cfg.Concurrency
		w.forget()
	}
	w.reading += reads
	w.stays(cfg)
	return w, isNew
}

// stays has the worker count for a while. Call it with workers.mu held.
func (w *worker) stays(cfg ReadConfig) {
	w.until = time.Now().Add(min(max(cfg.Visibility, readerTimeout), time.Minute))
}

func (q *Queue) newWorker(cfg ReadConfig) *worker {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(cfg.Worker)) // it has the same id through each process
	id := base32.StdEncoding.EncodeToString(sum[:])[:16]
	w := &worker{}
	w.slots = cfg.Pool.join(func() {}, w.forget)
	w.report = func() reader {
		q.shared.workers.mu.Lock()
		defer q.shared.workers.mu.Unlock()
		// One that shares its handlers with other queues works on for them: a queue that was made again must know it.
		lingers := w.slots == nil && w.reading == 0 && w.known.Load()
		return reader{id: id, name: cfg.Worker, host: host, handlers: w.slots.share(w.handlers), lingers: lingers}
	}
	return w
}

// keep reports a worker until it has gone, from so much later on.
func (q *Queue) keep(name string, w *worker, after time.Duration) {
	time.AfterFunc(after, func() {
		ctx, cancel := context.WithTimeout(context.Background(), beatInterval)
		defer cancel()
		all := &q.shared.workers
		all.mu.Lock()
		gone := all.of[name] != w || w.reading == 0 && time.Now().After(w.until)
		all.mu.Unlock()
		if !gone {
			_, err := q.beat(ctx, defaultVisibility, &w.registration, nil)
			gone = err != nil && (permanent(err) || errors.Is(err, errLeft))
		}
		all.mu.Lock()
		known, left := all.of[name], w.handlers == 0
		if gone && known == w { // the queue removes it after readerTimeout
			w.slots.leave()
			delete(all.of, name)
		}
		all.mu.Unlock()
		switch {
		case known == w && !gone:
			q.keep(name, w, beatInterval)
		case known == nil && left: // it left meanwhile, and this report may have come later
			_, _ = q.beat(ctx, defaultVisibility, &w.registration, nil)
		}
	})
}

// end removes a worker from the queue and from those of its Pool, whether or not it read through this process.
func (q *Queue) end(ctx context.Context, cfg ReadConfig) error {
	var failed error
	unknown := cfg
	unknown.Pool = nil
	queues := cfg.Pool.expected()
	if !slices.Contains(queues, q) {
		queues = append(slices.Clip(queues), q)
	}
	for _, one := range queues {
		all := &one.shared.workers
		all.mu.Lock()
		w := all.of[cfg.Worker]
		if w == nil {
			w = one.newWorker(unknown)
		}
		delete(all.of, cfg.Worker)
		w.handlers = 0
		all.mu.Unlock()
		w.slots.leave()
		if _, err := one.beat(ctx, defaultVisibility, &w.registration, nil); err != nil {
			failed = err
		}
	}
	return failed
}
