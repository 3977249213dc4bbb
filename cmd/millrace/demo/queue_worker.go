package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// hands is how many messages of the queue a worker has in hand at a time, and
	// how many of the stream.
	hands = 6

	// workPerMessage is how long the work on a message takes: a call to somebody
	// else's server, say.
	workPerMessage = 15 * time.Millisecond

	// inHandFor is after how long a message comes again whose worker was killed.
	// It is short, so that the scene is, too; a worker that lives has to stall
	// for as long to lose one.
	inHandFor = 3 * time.Second

	// fifoGroup is the group of all workers on the plain stream.
	fifoGroup = "workers"

	// noteField is the field of an entry of the plain stream that has the note.
	noteField = "note"

	// reclaimEvery is how often each hand looks for an entry of the plain stream
	// whose worker was killed.
	reclaimEvery = time.Second
)

// A side is one of the two ways that every message takes.
type side string

const (
	fair side = "fair" // the fair queue
	fifo side = "fifo" // the plain stream
)

// queueNews is what a worker tells: that it has a message in hand, and then that it
// has handled it.
type queueNews struct {
	Side   side `json:"side"`
	Worker int  `json:"worker"` // its process
	Number int  `json:"number"` // the message's, by the scene's own count
	Done   bool `json:"done,omitempty"`

	// Of one in hand.
	ID     string        `json:"id,omitempty"` // as the queue has it
	Stream int           `json:"stream,omitempty"`
	Again  bool          `json:"again,omitempty"` // it was delivered before
	Waited time.Duration `json:"waited,omitempty"`
}

// noteNow is the body of a message: its number, and when it is written. Parent
// and children share a clock.
func noteNow(number int) string {
	return strconv.Itoa(number) + " " + strconv.FormatInt(time.Now().UnixMicro(), 10)
}

// readNote returns the number in a note, and how long ago it was written.
func readNote(note string) (number int, waited time.Duration, err error) {
	first, second, _ := strings.Cut(note, " ")
	number, err = strconv.Atoi(first)
	if err != nil {
		return 0, 0, fmt.Errorf("a message says %q: %w", note, err)
	}
	written, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("a message says %q: %w", note, err)
	}
	return number, max(0, time.Since(time.UnixMicro(written))), nil
}

// queueWorker is the queue scene's child: it serves the queue, and the plain
// stream, with as many hands each.
type queueWorker struct {
	part

	mu sync.Mutex // held while it tells
}

// workOnQueues works until it is dismissed, or killed.
func workOnQueues(ctx context.Context, p part) error {
	w := &queueWorker{part: p}
	return w.serve(ctx, w.handle)
}

// serve is workOnQueues with any way to handle what comes out of the queue.
func (w *queueWorker) serve(ctx context.Context, handle func(context.Context, queueNews) error) error {
	queue, err := fairqueue.New(w.client, w.name, fairqueue.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			if err := w.serveFIFO(ctx, fmt.Sprintf("%d:%d", os.Getpid(), hand)); err != nil {
				cancel(err)
			}
		})
	}
	err = queue.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: hands, Visibility: inHandFor, Drain: dismissal / 2},
		func(ctx context.Context, m fairqueue.Message) error {
			number, waited, err := readNote(string(m.Body))
			if err != nil {
				return fairqueue.Dead(err)
			}
			return handle(ctx, queueNews{Side: fair, Number: number, ID: m.ID, Stream: m.Stream, Again: m.Attempt > 1, Waited: waited})
		})
	cancel(err)
	all.Wait()
	return err
}

// handle tells of a message, works on it, and tells that it is handled.
func (w *queueWorker) handle(ctx context.Context, news queueNews) error {
	news.Worker = os.Getpid()
	if err := w.tell(news); err != nil {
		return err
	}
	if !retry.Sleep(ctx, workPerMessage) {
		return context.Cause(ctx)
	}
	return w.tell(queueNews{Side: news.Side, Worker: news.Worker, Number: news.Number, Done: true})
}

func (w *queueWorker) tell(news queueNews) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report(news)
}

// serveFIFO is one hand on the plain stream: the usual cycle of a consumer group.
func (w *queueWorker) serveFIFO(ctx context.Context, consumer string) error {
	key := fifoKey(w.name)
	var looked time.Time
	for ctx.Err() == nil {
		again := time.Since(looked) >= reclaimEvery
		var entries []rueidis.XRangeEntry
		var err error
		if again {
			looked = time.Now()
			entries, err = w.reclaim(ctx, key, consumer)
		} else {
			entries, err = w.read(ctx, key, consumer)
		}
		if err != nil {
			return err
		}
		for _, entry := range entries {
			number, waited, err := readNote(entry.FieldValues[noteField])
			if err != nil {
				return err
			}
			if err := w.handle(ctx, queueNews{Side: fifo, Number: number, Again: again, Waited: waited}); err != nil {
				return err
			}
			replies := w.client.DoMulti(ctx,
				w.client.B().Xack().Key(key).Group(fifoGroup).Id(entry.ID).Build(),
				w.client.B().Xdel().Key(key).Id(entry.ID).Build())
			if err := errors.Join(replies[0].Error(), replies[1].Error()); err != nil {
				return err
			}
		}
	}
	return nil
}

// read takes the next entry of the plain stream.
func (w *queueWorker) read(ctx context.Context, key, consumer string) ([]rueidis.XRangeEntry, error) {
	read := w.client.B().Xreadgroup().Group(fifoGroup, consumer).Count(1).Block((dismissal / 2).Milliseconds()).Streams().Key(key).Id(">")
	streams, err := w.client.Do(ctx, read.Build()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return streams[key], err
}

// reclaim takes an entry of the plain stream whose worker was killed.
func (w *queueWorker) reclaim(ctx context.Context, key, consumer string) ([]rueidis.XRangeEntry, error) {
	idle := strconv.FormatInt(inHandFor.Milliseconds(), 10)
	claim := w.client.B().Xautoclaim().Key(key).Group(fifoGroup).Consumer(consumer).MinIdleTime(idle).Start("0-0").Count(1)
	reply, err := w.client.Do(ctx, claim.Build()).ToArray()
	if err != nil || len(reply) < 2 {
		return nil, err
	}
	return reply[1].AsXRange()
}
