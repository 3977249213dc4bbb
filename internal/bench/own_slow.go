package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

const (
	workers      = 10
	slowMessages = 200 // that each slow tenant has
	quietTenants = 20
	quietEvery   = 50 * time.Millisecond // a message of each
)

// slowFigures measure the rule for slow tenants. Readers that Read are not limited, so ten of
// them are what there is without it.
func slowFigures() []Figure {
	var figures []Figure
	for _, n := range []int{0, 1, 2, 5} {
		figures = append(figures, Figure{
			What: fmt.Sprintf("fairqueue p99 pickup of 20 quiet tenants beside %d slow ones, 10 workers", n), Unit: "ms", Sides: []Side{
				{Name: "Consume", Measure: onQueue(fairqueue.Config{}, quietPickups(n, consuming))},
				{Name: "Read, without the rule", Goal: ValueAtMost(20), Measure: onQueue(fairqueue.Config{}, quietPickups(n, reading))},
			},
		})
	}
	return append(figures,
		Figure{What: "fairqueue workers of 10 that a slow tenant has who is alone", Unit: "workers", Sides: []Side{
			{Name: "Consume", Measure: onQueue(fairqueue.Config{}, workersOfOne(consuming))},
			{Name: "Read, without the rule", Goal: AtLeast(1), Measure: onQueue(fairqueue.Config{}, workersOfOne(reading))},
		}},
		Figure{What: "fairqueue consume, 10 workers of 1 ms a message", Unit: "messages/s", Sides: []Side{
			{Name: "10 floods", Measure: onQueue(fairqueue.Config{}, quickFloods(10))},
			{Name: "1 flood, which the rule lets through", Goal: AtLeast(0.95), Measure: onQueue(fairqueue.Config{}, quickFloods(1))},
		}})
}

// crew has workers call handle with the bodies of messages until ctx ends.
type crew func(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error

// consuming are the handlers of one that Consumes.
func consuming(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error {
	cfg := fairqueue.ConsumeConfig{Concurrency: workers, Visibility: time.Hour}
	err := q.Consume(ctx, cfg, func(_ context.Context, m fairqueue.Message) error {
		handle(string(m.Body))
		return nil
	})
	return unless(ctx, err)
}

// reading are as many goroutines that Read.
func reading(ctx context.Context, q *fairqueue.Queue, handle func(body string)) error {
	var all sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		all.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				messages, err := q.Read(ctx, fairqueue.ReadConfig{Block: -1, Visibility: time.Hour})
				if err != nil {
					errs[i] = unless(ctx, err)
					return
				}
				handle(string(messages[0].Body))
				_, errs[i] = q.Ack(context.WithoutCancel(ctx), messages[0].Receipt)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// unless returns an error, unless ctx has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// during runs a crew while do runs, and ends it. over is closed then.
func during(ctx context.Context, q *fairqueue.Queue, work crew, handle func(over <-chan struct{}, body string), do func(ctx context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := work(ctx, q, func(body string) { handle(over, body) })
		stop(err) // without workers nothing is to be waited for
		ended <- err
	}()
	err := do(ctx)
	stop(nil)
	close(over)
	return errors.Join(err, <-ended)
}

// writeSlow writes what n slow tenants have.
func writeSlow(ctx context.Context, q *fairqueue.Queue, n int) error {
	var all []fairqueue.Draft
	for i := range n * slowMessages {
		all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("slow ", i%n), Body: []byte("slow")})
	}
	_, err := q.WriteBatch(ctx, all...)
	return err
}

// quietPickups returns the 99th percentile of how long quiet tenants' messages wait for a
// worker beside n slow tenants, whose messages take until the time is over. One that no worker
// took has waited until then.
func quietPickups(n int, work crew) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	return func(ctx context.Context, at Place, q *fairqueue.Queue) (float64, error) {
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
		err := during(ctx, q, work, handle, func(ctx context.Context) error {
			if err := write(ctx); err != nil { // others were there when the slow ones come
				return err
			}
			if err := writeSlow(ctx, q, n); err != nil {
				return err
			}
			tick := time.NewTicker(quietEvery / quietTenants)
			defer tick.Stop()
			for end = time.Now().Add(at.Time); time.Now().Before(end); {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if err := write(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		var all []time.Duration
		for i, at := range written {
			took, there := waited[i]
			if !there {
				took = end.Sub(at)
			}
			all = append(all, took)
		}
		slices.Sort(all)
		return milliseconds(all[len(all)*99/100]), err
	}
}

// workersOfOne returns how many workers one slow tenant gets within the time, who is alone.
func workersOfOne(work crew) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	return func(ctx context.Context, at Place, q *fairqueue.Queue) (float64, error) {
		var busy atomic.Int64
		all := make(chan struct{})
		handle := func(over <-chan struct{}, _ string) {
			if busy.Add(1) == workers {
				close(all)
			}
			<-over
		}
		err := during(ctx, q, work, handle, func(ctx context.Context) error {
			if err := writeSlow(ctx, q, 1); err != nil {
				return err
			}
			select {
			case <-all:
			case <-time.After(max(at.Time, time.Second)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return nil
		})
		return float64(min(busy.Load(), workers)), err
	}
}

// quickFloods returns how many messages a second are handled of so many tenants, who have more
// than can be.
func quickFloods(tenants int) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	return func(ctx context.Context, at Place, q *fairqueue.Queue) (float64, error) {
		var flood []fairqueue.Draft
		for i := range max(100, int(at.Time.Seconds()*2*workers*1000)) { // twice what they can handle
			flood = append(flood, fairqueue.Draft{Tenant: fmt.Sprint("loud ", i%tenants), Body: []byte(strings.Repeat("x", BodySize))})
		}
		if _, err := q.WriteBatch(ctx, flood...); err != nil {
			return 0, err
		}
		var handled atomic.Int64
		first, speed := make(chan struct{}), 0.0
		err := during(ctx, q, consuming, func(<-chan struct{}, string) {
			time.Sleep(time.Millisecond)
			if handled.Add(1) == 1 {
				close(first)
			}
		}, func(ctx context.Context) error {
			select {
			case <-first:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			start := time.Now()
			select {
			case <-time.After(at.Time):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			speed = float64(handled.Load()) / time.Since(start).Seconds()
			return nil
		})
		return speed, err
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
