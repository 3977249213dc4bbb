package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// hands is how many messages of each side a worker handles at a time.
	hands = 6

	// quickWork and slowWork are how long the work on a message takes: a call to somebody
	// else's server, say. Quick work is not so quick that a worker fetches ahead.
	quickWork = 10 * time.Millisecond
	slowWork  = 250 * time.Millisecond

	// inHandFor is after how long a message comes again whose worker was killed. It is
	// short, so that the scene is, too; a worker that lives has to stall for as long to
	// lose one.
	inHandFor = 3 * time.Second
)

// A side is one of the two ways that every message takes.
type side string

const (
	fair side = "fair" // a queue in which tenants take turns
	line side = "line" // a queue in which all are one tenant: one line in order
)

// open opens the side's queue.
func (s side) open(p part) (*fairqueue.Queue, error) {
	if s == line {
		return fairqueue.New(p.client, p.name+":line", fairqueue.Config{})
	}
	return fairqueue.New(p.client, p.name, fairqueue.Config{})
}

// queueNews is what a worker tells: that it has a message in hand, and then that it
// has handled it. Parent and children share a clock, in microseconds.
type queueNews struct {
	Side   side  `json:"side"`
	Number int   `json:"number"` // the message's, by the scene's own count
	Now    int64 `json:"now"`
	Done   bool  `json:"done,omitempty"`

	// Of one in hand.
	ID        string `json:"id,omitempty"` // as the queue has it
	Again     bool   `json:"again,omitempty"`
	Written   int64  `json:"written,omitempty"` // by the server's clock, as Delivered
	Delivered int64  `json:"delivered,omitempty"`
}

// noteOf is the body of a message: its number, and how long the work takes.
func noteOf(number int, work time.Duration) []byte { return fmt.Appendf(nil, "%d %s", number, work) }

func readNote(note []byte) (number int, work time.Duration, err error) {
	var text string
	if _, err = fmt.Sscanf(string(note), "%d %s", &number, &text); err == nil {
		work, err = time.ParseDuration(text)
	}
	if err != nil {
		err = fmt.Errorf("a message says %q: %w", note, err)
	}
	return number, work, err
}

// queueWorker is the queue scene's child: it serves both sides, with as many hands each.
type queueWorker struct {
	part

	mu sync.Mutex // held while it tells
}

// workOnQueues works until it is dismissed, or killed.
func workOnQueues(ctx context.Context, p part) error {
	w := &queueWorker{part: p}
	return w.serve(ctx, w.handle)
}

// serve is workOnQueues with any way to handle a message.
func (w *queueWorker) serve(ctx context.Context, handle func(context.Context, queueNews, time.Duration) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range []side{fair, line} {
		queue, err := s.open(w.part)
		if err != nil {
			cancel(err)
			return err
		}
		all.Go(func() {
			cancel(queue.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: hands, Visibility: inHandFor, Drain: dismissal / 2},
				func(ctx context.Context, m fairqueue.Message) error {
					number, work, err := readNote(m.Body)
					if err != nil {
						return fairqueue.NoRetry(err)
					}
					return handle(ctx, queueNews{
						Side: s, Number: number, ID: m.ID, Again: m.Attempt > 1,
						Written: m.Written.UnixMicro(), Delivered: m.Written.Add(m.PickupDelay).UnixMicro(),
					}, work)
				}))
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// handle tells of a message, works on it, and tells that it is handled.
func (w *queueWorker) handle(ctx context.Context, news queueNews, work time.Duration) error {
	if err := w.tell(news); err != nil {
		return err
	}
	if !retry.Sleep(ctx, work) {
		return context.Cause(ctx)
	}
	return w.tell(queueNews{Side: news.Side, Number: news.Number, Done: true})
}

func (w *queueWorker) tell(news queueNews) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	news.Now = time.Now().UnixMicro()
	return w.report(news)
}
