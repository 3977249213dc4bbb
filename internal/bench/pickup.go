package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/retry"
)

// witness is a client that counts the commands which go through it, and tells of
// those that block.
type witness struct {
	rueidis.Client

	sent   atomic.Int64
	blocks chan struct{} // holds one word of it
}

func watched(c rueidis.Client) *witness { return &witness{Client: c, blocks: make(chan struct{}, 1)} }

// Do counts a command and sends it.
func (w *witness) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	w.sent.Add(1)
	if cmd.IsBlock() {
		select {
		case w.blocks <- struct{}{}:
		default:
		}
	}
	return w.Client.Do(ctx, cmd)
}

// DoMulti counts commands and sends them.
func (w *witness) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	w.sent.Add(int64(len(multi)))
	return w.Client.DoMulti(ctx, multi...)
}

// blocked waits for the next command that blocks, for ten seconds at most.
func (w *witness) blocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("a reader that finds nothing does not block"))
	defer cancel()
	select {
	case <-w.blocks:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// percentile returns a percentile of times, in a unit.
func percentile(percent int, unit time.Duration, times func(context.Context, Place) ([]time.Duration, error)) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		took, err := times(ctx, p)
		if err != nil {
			return 0, err
		}
		slices.Sort(took)
		return float64(took[len(took)*percent/100]) / float64(unit), nil
	}
}

// queuePickups returns how long pickups took on a queue.
func queuePickups(ctx context.Context, p Place) (took []time.Duration, err error) {
	w := watched(p.Client)
	reader, err := fairqueue.New(w, p.Name, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	writer, err := fairqueue.New(p.Client, p.Name, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	defer func() {
		registry.Settle(context.WithoutCancel(ctx), w) // so that the deletion has the last word
		err = errors.Join(err, p.cleanUp(ctx, writer.Delete))
	}()
	draft := drafts(1)[0]
	var before []fairqueue.Message
	return pickups(ctx, p, w, func(ctx context.Context) (err error) {
		if _, err := reader.Ack(context.WithoutCancel(ctx), receipts(before)...); err != nil {
			return err
		}
		before, err = reader.Read(ctx, fairqueue.ReadConfig{Block: -1})
		return err
	}, func(ctx context.Context) error {
		_, err := writer.Write(ctx, draft)
		return err
	})
}

// barePickups returns how long they took on a list.
func barePickups(ctx context.Context, p Place) (took []time.Duration, err error) {
	w, list, body := watched(p.Client), p.key("list"), strings.Repeat("x", BodySize)
	defer func() { err = errors.Join(err, p.cleanUp(ctx, p.unlink(list))) }()
	return pickups(ctx, p, w, func(ctx context.Context) error {
		return w.Do(ctx, w.B().Blpop().Key(list).Timeout(0).Build().UnblockOnCancel()).Error()
	}, func(ctx context.Context) error {
		return p.Client.Do(ctx, p.Client.B().Rpush().Key(list).Element(body).Build()).Error()
	})
}

// settling is for how long a reader has been blocked when it is sent something,
// beside the time that its command needs to the server.
const settling = time.Millisecond

// pickups sends to a receiver that is blocked on the server, again and again, and
// returns how long it took each time from before send until receive has returned.
func pickups(ctx context.Context, p Place, w *witness, receive, send func(context.Context) error) ([]time.Duration, error) {
	way, err := roundTrip(ctx, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	type arrival struct {
		at  time.Time
		err error
	}
	var took []time.Duration
	for start := time.Now(); len(took) < 2 || time.Since(start) < p.Time; {
		arrived := make(chan arrival, 1)
		receiving.Go(func() {
			err := receive(ctx)
			arrived <- arrival{time.Now(), err}
		})
		if err := w.blocked(ctx); err != nil {
			return nil, err
		}
		if !retry.Sleep(ctx, settling+way) {
			return nil, context.Cause(ctx)
		}
		sent := time.Now()
		if err := send(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
		a := <-arrived
		if a.err != nil {
			return nil, a.err
		}
		took = append(took, a.at.Sub(sent))
	}
	return took[1:], nil // the first opened connections
}

// roundTrip returns how long a command takes that does nothing: the median of
// some.
func roundTrip(ctx context.Context, p Place) (time.Duration, error) {
	took := make([]time.Duration, 21)
	for i := range took {
		start := time.Now()
		if err := p.Client.Do(ctx, p.Client.B().Exists().Key(p.key("none")).Build()).Error(); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// queueIdle has readers wait at an empty queue.
func queueIdle(ctx context.Context, p Place) (value float64, err error) {
	w := watched(p.Client)
	q, err := fairqueue.New(w, p.Name, fairqueue.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.cleanUp(ctx, q.Delete)) }()
	return idle(ctx, p, w, func(ctx context.Context) error {
		return each(ctx, func(context.Context, int, func() bool) error {
			_, err := q.Read(ctx, fairqueue.ReadConfig{Block: -1}) // which ends with ctx
			return err
		})
	})
}

// bareIdle has one reader wait at a list that is not there.
func bareIdle(ctx context.Context, p Place) (float64, error) {
	w := watched(p.Client)
	return idle(ctx, p, w, func(ctx context.Context) (err error) {
		for err == nil || rueidis.IsRedisNil(err) {
			err = w.Do(ctx, w.B().Blpop().Key(p.key("none")).Timeout(1).Build().UnblockOnCancel()).Error()
		}
		return err
	})
}

// idle returns how many commands a second are sent while read finds nothing. It
// counts from one command that blocks to another, so that whole periods are
// counted, and leaves out the first, in which read begins.
func idle(ctx context.Context, p Place, w *witness, read func(context.Context) error) (float64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop(nil)
	reading.Go(func() { stop(read(ctx)) })
	for range 2 {
		if err := w.blocked(ctx); err != nil {
			return 0, err
		}
	}
	start, before := time.Now(), w.sent.Load()
	for {
		if err := w.blocked(ctx); err != nil {
			return 0, err
		}
		if took := time.Since(start); took > 3*p.Time {
			return float64(w.sent.Load()-before) / took.Seconds(), nil
		}
	}
}
