package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
)

// watched is a client that reports its commands that block.
type watched struct {
	rueidis.Client

	blocks chan struct{} // holds one report
}

func watching(c rueidis.Client) *watched { return &watched{c, make(chan struct{}, 1)} }

// Do sends a command.
func (c *watched) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if cmd.IsBlock() {
		select {
		case c.blocks <- struct{}{}:
		default:
		}
	}
	return c.Client.Do(ctx, cmd)
}

// blocked waits for the next command that blocks, for ten seconds at most.
func (c *watched) blocked(ctx context.Context) error {
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
	c := watching(b.Client)
	writer := b.Queue(b.Client, fairqueue.Config{})
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
	c, list, body := watching(b.Client), b.key("list"), strings.Repeat("x", BodySize)
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
func pickups(ctx context.Context, b *B, c *watched, receive, send func(context.Context) error) (took []time.Duration) {
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
