package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

const (
	lossWriters    = 2
	lossPace       = 4 * time.Millisecond // of each writer
	lossVisibility = 2 * time.Second
)

// steady is a steady load on one queue, and what its programs may rely on. Writers write one message after the other, and
// repeat each under its dedupe id until it is confirmed. A worker reads, handles and acknowledges.
type steady struct {
	t       *testing.T
	name    string
	queue   *fairqueue.Queue // the worker's
	writer  *fairqueue.Queue
	pad     int           // bytes of each body
	timeout time.Duration // of a write; none by default

	// write is a confirmed write. Defaults to that of the writer's queue.
	write func(ctx context.Context, d fairqueue.Draft) error

	writing, reading context.CancelFunc
	writers, workers sync.WaitGroup
	gate             chan struct{} // taken by the worker for a round, and while it is paused

	mu        sync.Mutex
	confirmed []confirmed
	handled   map[string]int
	acked     map[string]bool
	again     int            // deliveries of messages whose acknowledgement had succeeded
	codes     map[string]int // of the errors that calls ended with
	fault     time.Time
	sealed    int
}

type confirmed struct {
	id string
	at time.Time
}

func newSteady(t *testing.T) *steady {
	t.Helper()
	return &steady{t: t, gate: make(chan struct{}, 1), name: redistest.Name(t), handled: map[string]int{}, acked: map[string]bool{}, codes: map[string]int{}}
}

// start begins the load: writers and a worker with clients of their own.
func (l *steady) start(writer, worker rueidis.Client) {
	l.t.Helper()
	l.queue, l.writer = openQueue(l.t, worker, l.name), openQueue(l.t, writer, l.name)
	if l.write == nil {
		l.write = func(ctx context.Context, d fairqueue.Draft) error { return second(l.writer.Write(ctx, d)) }
	}
	writing, stop := context.WithCancel(l.t.Context())
	reading, end := context.WithCancel(l.t.Context())
	l.writing, l.reading = stop, end
	l.t.Cleanup(func() {
		stop()
		end()
		l.writers.Wait()
		l.workers.Wait()
	})
	for w := range lossWriters {
		l.writers.Go(func() { l.produce(writing, w) })
	}
	l.workers.Go(func() { l.consume(reading) })
}

func (l *steady) produce(ctx context.Context, writer int) {
	next := time.NewTicker(lossPace)
	defer next.Stop()
	for i := 0; ; i++ {
		id := fmt.Sprint(writer, "-", i)
		d := fairqueue.Draft{Tenant: fmt.Sprint("tenant", i%7), DedupeID: id, Body: append([]byte(id+" "), bytes.Repeat([]byte("x"), l.pad)...)}
		for l.note(ctx, l.try(ctx, d)) != nil {
			if !rest(ctx, next) {
				return
			}
		}
		l.mu.Lock()
		l.confirmed = append(l.confirmed, confirmed{id, time.Now()})
		l.mu.Unlock()
		if !rest(ctx, next) {
			return
		}
	}
}

func (l *steady) try(ctx context.Context, d fairqueue.Draft) error {
	if l.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		ctx = limited
	}
	return l.write(ctx, d)
}

func rest(ctx context.Context, next *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-next.C:
		return true
	}
}

// note counts an error that a program saw while it was not ending itself.
func (l *steady) note(ctx context.Context, err error) error {
	code := "connection"
	known := (*millrace.Error)(nil)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, fairqueue.ErrEmpty):
		return err
	case errors.As(err, &known):
		code = known.Code
	case errors.Is(err, errWait):
		code = "wait"
	case errors.Is(err, context.DeadlineExceeded): // a read or a write with a time of its own
		return err
	}
	l.saw(code)
	return err
}

func (l *steady) saw(code string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.codes[code]++
}

// sawCode reports whether a call has ended with an error of that code.
func (l *steady) sawCode(code string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.codes[code] > 0
}

// awaitCode returns when a call has ended with an error of that code.
func (l *steady) awaitCode(code string) {
	l.t.Helper()
	redistest.Eventually(l.t, "a call ends with the error "+code, func() bool { return l.sawCode(code) })
}

func (l *steady) consume(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l.gate <- struct{}{}:
		}
		messages, err := l.queue.Read(ctx, fairqueue.ReadConfig{Max: 20, Block: 100 * time.Millisecond, Visibility: lossVisibility})
		_ = l.note(ctx, err)
		for _, m := range messages {
			l.handle(ctx, m)
		}
		l.resume()
		if err != nil && !errors.Is(err, fairqueue.ErrEmpty) {
			<-time.After(lossPace) // a worker that tries again
		}
	}
}

func (l *steady) handle(ctx context.Context, m fairqueue.Message) {
	l.acknowledge(ctx, m, l.begin(m))
}

func (l *steady) acknowledge(ctx context.Context, m fairqueue.Message, id string) {
	if _, err := l.queue.Ack(ctx, m.Receipt); l.note(ctx, err) == nil {
		l.mu.Lock()
		l.acked[id] = true
		l.mu.Unlock()
	}
}

// begin counts a message as handled and returns its id.
func (l *steady) begin(m fairqueue.Message) (id string) {
	id, _, _ = strings.Cut(string(m.Body), " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[id]++
	if l.acked[id] {
		l.again++
	}
	return id
}

// pause returns when the worker has nothing in its hands, and takes nothing more until resume.
func (l *steady) pause()  { l.gate <- struct{}{} }
func (l *steady) resume() { <-l.gate }

// confirms returns when n more messages were confirmed.
func (l *steady) confirms(n int) {
	l.t.Helper()
	have := l.count()
	redistest.Eventually(l.t, "more messages are confirmed", func() bool { return l.count() >= have+n })
}

func (l *steady) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.confirmed)
}

// handles returns when n more messages were handled and acknowledged.
func (l *steady) handles(n int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked)
	}
	have := count()
	redistest.Eventually(l.t, "more messages are handled", func() bool { return count() >= have+n })
}

// backlog has messages handled, and then others wait behind a worker that is paused.
func (l *steady) backlog() {
	l.t.Helper()
	n := 60
	if os.Getenv("MILLRACE_SOAK") != "" {
		n = 2000
	}
	l.handles(n)
	l.pause()
	l.confirms(n)
}

// seal remembers the messages that are confirmed by now. What secures them comes after it.
func (l *steady) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = len(l.confirmed)
}

// strikes remembers the moment of the fault.
func (l *steady) strikes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = time.Now()
}

// sealBefore seals those messages that were confirmed that long before the fault.
func (l *steady) sealBefore(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = 0
	for l.sealed < len(l.confirmed) && l.fault.Sub(l.confirmed[l.sealed].at) > d {
		l.sealed++
	}
}

// stopWriting ends the writers.
func (l *steady) stopWriting() {
	l.writing()
	l.writers.Wait()
}

// drain ends the writers, and returns when the worker has handled all that is there.
func (l *steady) drain() {
	l.t.Helper()
	l.stopWriting()
	redistest.Eventually(l.t, "the queue is empty", func() bool {
		s, err := l.queue.Stats(l.t.Context())
		return errors.Is(err, millrace.ErrNotFound) || err == nil && s.Waiting+s.InFlight+s.Delayed == 0
	})
	l.end()
}

// end ends the load.
func (l *steady) end() {
	l.stopWriting()
	l.reading()
	l.workers.Wait()
}

// outcome has the figures of a row.
type outcome struct {
	confirmed, lost, sealedLost, twice, again int
	within                                    time.Duration // in which the lost messages were confirmed
	codes                                     []string
}

func (l *steady) measure() outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := outcome{confirmed: len(l.confirmed), again: l.again, codes: slices.Sorted(maps.Keys(l.codes))}
	var first time.Time
	for i, c := range l.confirmed {
		if l.handled[c.id] > 0 {
			continue
		}
		if m.lost == 0 {
			first = c.at
		}
		m.within = c.at.Sub(first)
		m.lost++
		if i < l.sealed {
			m.sealedLost++
		}
	}
	for _, n := range l.handled {
		if n > 1 {
			m.twice++
		}
	}
	return m
}
