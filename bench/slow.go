package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/must"
)

const (
	workers      = 10
	slowMessages = 200 // that each slow tenant has
	quietTenants = 20
	quietEvery   = 50 * time.Millisecond // a message of each
)

// slowFigures measure the rule for slow tenants. Readers that Read are not limited, so ten of
// them show the queue without it.
func slowFigures() []bench.Figure {
	var figures []bench.Figure
	for _, n := range []int{0, 1, 2, 5} {
		figures = append(figures, bench.Figure{
			What: fmt.Sprintf("fairqueue p99 pickup of 20 quiet tenants beside %d slow ones, 10 workers", n), Unit: "ms", Sides: []bench.Side{
				{Name: "Consume", Measure: bench.QuantileOf(0.99, time.Millisecond, quietPickups(n, consuming))},
				{Name: "Read, without the rule", Goal: bench.ValueAtMost(20), Measure: bench.QuantileOf(0.99, time.Millisecond, quietPickups(n, reading))},
			},
		})
	}
	return figures
}

// crew has workers call handle with the bodies of messages until ctx ends.
type crew func(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error

// consuming are the handlers of one Consume.
func consuming(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error {
	cfg := fairqueue.ConsumeConfig{Concurrency: workers, Visibility: time.Hour}
	return q.Consume(ctx, cfg, func(_ context.Context, m fairqueue.Message) error {
		handle(string(m.Body))
		return nil
	})
}

// reading are as many goroutines that Read.
func reading(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error {
	var all sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		all.Go(func() {
			for errs[i] == nil {
				var messages []fairqueue.Message
				if messages, errs[i] = q.Read(ctx, fairqueue.ReadConfig{Block: -1, Visibility: time.Hour}); errs[i] == nil {
					handle(string(messages[0].Body))
					_, errs[i] = q.Ack(context.WithoutCancel(ctx), messages[0].Receipt)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// during runs a crew while do runs, and ends it. over is closed then.
func during(ctx context.Context, q *fairqueue.Queue, work crew, handle func(over <-chan struct{}, body string), do func(ctx context.Context) error) {
	ctx, stop := context.WithCancelCause(ctx)
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := work(ctx, q, func(body string) { handle(over, body) })
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		stop(err) // without workers do waits in vain
		ended <- err
	}()
	err := do(ctx)
	stop(nil)
	close(over)
	must.Do(errors.Join(err, <-ended))
}

// writeSlow writes the messages of n slow tenants.
func writeSlow(ctx context.Context, q *fairqueue.Queue, n int) error {
	var all []fairqueue.Draft
	for i := range n * slowMessages {
		all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("slow ", i%n), Body: []byte("slow")})
	}
	_, err := q.WriteBatch(ctx, all...)
	return err
}

// quietPickups returns how long quiet tenants' messages wait for a worker beside n slow
// tenants, whose messages take until the time is over. A message that no worker took has
// waited until then.
func quietPickups(n int, work crew) func(context.Context, *bench.B) []time.Duration {
	return func(ctx context.Context, b *bench.B) (all []time.Duration) {
		q := b.Queue(b.Client, fairqueue.Config{})
		var mu sync.Mutex
		var written []time.Time
		waited := map[int]time.Duration{}
		write := func(ctx context.Context) error {
			mu.Lock()
			i := len(written)
			written = append(written, time.Now())
			mu.Unlock()
			_, err := q.Write(ctx, fairqueue.Draft{Tenant: fmt.Sprint("quiet ", i%quietTenants), Body: []byte(strconv.Itoa(i))})
			return err
		}
		handle := func(over <-chan struct{}, body string) {
			if body == "slow" {
				<-over
				return
			}
			i, err := strconv.Atoi(body)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				waited[i] = time.Since(written[i])
			}
		}
		var end time.Time
		during(ctx, q, work, handle, func(ctx context.Context) error {
			err := write(ctx) // quiet tenants are known when the slow ones come
			if err == nil {
				err = writeSlow(ctx, q, n)
			}
			tick := time.NewTicker(quietEvery / quietTenants)
			defer tick.Stop()
			for end = time.Now().Add(b.Time); err == nil && time.Now().Before(end); {
				select {
				case <-tick.C:
					err = write(ctx)
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			return err
		})
		for i, at := range written {
			took, done := waited[i]
			if !done {
				took = end.Sub(at)
			}
			all = append(all, took)
		}
		return all
	}
}
