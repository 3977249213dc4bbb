package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

// counter is a client that counts its commands and reports those that block.
type counter struct {
	rueidis.Client

	sent   atomic.Int64
	blocks chan struct{} // holds one report
}

func counted(c rueidis.Client) *counter { return &counter{Client: c, blocks: make(chan struct{}, 1)} }

// Do counts a command and sends it.
func (c *counter) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.sent.Add(1)
	if cmd.IsBlock() {
		select {
		case c.blocks <- struct{}{}:
		default:
		}
	}
	return c.Client.Do(ctx, cmd)
}

// DoMulti counts commands and sends them.
func (c *counter) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	c.sent.Add(int64(len(multi)))
	return c.Client.DoMulti(ctx, multi...)
}

// blocked waits for the next command that blocks, for ten seconds at most.
func (c *counter) blocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("a reader of an empty queue does not block"))
	defer cancel()
	select {
	case <-c.blocks:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// queuePickups returns how long pickups from a queue took.
func queuePickups(ctx context.Context, b *B) []time.Duration {
	c := counted(b.Client)
	writer := b.queue(b.Client, fairqueue.Config{})
	reader := must.Get(fairqueue.New(c, b.Name, fairqueue.Config{}))
	b.settleAfter(c)
	var before []fairqueue.Message
	return pickups(ctx, b, c, func(ctx context.Context) (err error) {
		if _, err := reader.Ack(context.WithoutCancel(ctx), receipts(before)...); err != nil {
			return err
		}
		before, err = reader.Read(ctx, fairqueue.ReadConfig{Block: -1})
		return err
	}, func(ctx context.Context) error {
		_, err := writer.Write(ctx, drafts(1)[0])
		return err
	})
}

// listPickups returns how long they took from a list.
func listPickups(ctx context.Context, b *B) []time.Duration {
	c, list, body := counted(b.Client), b.key("list"), strings.Repeat("x", BodySize)
	b.unlinkAfter(list)
	return pickups(ctx, b, c, func(ctx context.Context) error {
		return c.Do(ctx, c.B().Blpop().Key(list).Timeout(0).Build().UnblockOnCancel()).Error()
	}, func(ctx context.Context) error {
		return b.Client.Do(ctx, b.Client.B().Rpush().Key(list).Element(body).Build()).Error()
	})
}

// settling is for how long a reader has been blocked before something is sent to it,
// beside the time that its command needs to the server.
const settling = time.Millisecond

// pickups sends to a receiver that is blocked on the server, again and again, and
// returns how long it took each time from before send until receive has returned.
func pickups(ctx context.Context, b *B, c *counter, receive, send func(context.Context) error) (took []time.Duration) {
	way := must.Get(roundTrip(ctx, b))
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	for start := time.Now(); len(took) < 2 || time.Since(start) < b.Time; {
		var arrived time.Time
		received := make(chan error, 1)
		receiving.Go(func() {
			err := receive(ctx)
			arrived = time.Now()
			received <- err
		})
		must.Do(c.blocked(ctx))
		if !retry.Sleep(ctx, settling+way) {
			must.Do(context.Cause(ctx))
		}
		sent := time.Now()
		must.Do(send(context.WithoutCancel(ctx)))
		must.Do(<-received)
		took = append(took, arrived.Sub(sent))
	}
	return took[1:] // the first opened connections
}

// queueIdle has readers wait at an empty queue.
func queueIdle(ctx context.Context, b *B) float64 {
	c := counted(b.Client)
	q := b.queue(c, fairqueue.Config{})
	return idle(ctx, b, c, func(ctx context.Context) error {
		return each(ctx, Goroutines, func(context.Context, int, func() bool) error {
			_, err := q.Read(ctx, fairqueue.ReadConfig{Block: -1}) // which ends with ctx
			return err
		})
	})
}

// listIdle has one reader wait at a list that does not exist.
func listIdle(ctx context.Context, b *B) float64 {
	c := counted(b.Client)
	return idle(ctx, b, c, func(ctx context.Context) (err error) {
		for err == nil || rueidis.IsRedisNil(err) {
			err = c.Do(ctx, c.B().Blpop().Key(b.key("none")).Timeout(1).Build().UnblockOnCancel()).Error()
		}
		return err
	})
}

// idle returns how many commands a second are sent while read finds nothing. It
// counts from one command that blocks to another, so that whole periods are
// counted, and leaves out the first, in which read begins.
func idle(ctx context.Context, b *B, c *counter, read func(context.Context) error) float64 {
	ctx, stop := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop(nil)
	reading.Go(func() { stop(read(ctx)) })
	for range 2 {
		must.Do(c.blocked(ctx))
	}
	for start, before := time.Now(), c.sent.Load(); ; {
		must.Do(c.blocked(ctx))
		if took := time.Since(start); took > 3*b.Time {
			return float64(c.sent.Load()-before) / took.Seconds()
		}
	}
}
