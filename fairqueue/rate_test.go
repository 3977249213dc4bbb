package fairqueue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// lazyServer returns a server that looks at timeouts of blocking commands once a second.
func lazyServer(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, redistest.Options{})
	want(t, "hz", nil, nil, do(t, server.Client(t), "CONFIG", "SET", "hz", "1").Error())
	return server
}

// TestRateIsARate: a tenant with a backlog gets its rate within two percent by the server's clock, though each delivery is
// a little late. A machine that stops for longer than a delivery may be late has another try.
func TestRateIsARate(t *testing.T) {
	const tries = 5
	for _, rate := range []float64{10, 19} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				got := measuredRate(t, rate)
				if math.Abs(got-rate) <= 0.02*rate {
					return
				}
				t.Logf("try %d: %.2f deliveries a second, want %g", try, got, rate)
				if try == tries {
					t.Fatalf("%.2f deliveries a second, want %g within two percent", got, rate)
				}
			}
		})
	}
}

// measuredRate returns how many deliveries a second a consumer gets from a backlog, by the instants that the server stored.
func measuredRate(t *testing.T, rate float64) float64 {
	t.Helper()
	const first = 5 // after the burst
	most := int(3*rate) + first
	q := openOn(t, lazyServer(t).Client(t), "x", Config{})
	limit(t, q, "", queuestats.Limits{Rate: rate})
	writeAll(t, q, most+20, Draft{Tenant: "a"})
	ctx, stop := context.WithCancel(t.Context())
	arrived, ended := make(chan struct{}, most+20), make(chan error, 1)
	go func() {
		ended <- q.Consume(ctx, ConsumeConfig{Concurrency: most + 20, Drain: time.Millisecond}, func(ctx context.Context, _ Message) error {
			arrived <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	for range most {
		<-arrived
	}
	var instants []float64
	there, _ := readRaw(t, q)
	for handle := range there.deliveries {
		at, err := instant(there.hot[handle][:16])
		want(t, "instant", nil, nil, err)
		instants = append(instants, float64(at.UnixMicro())/1e6)
	}
	stop()
	<-ended
	slices.Sort(instants)
	return float64(most-1-first) / (instants[most-1] - instants[first])
}

// TestDueAtItsTime: a reader that sleeps asks when a message is due, and not when the server next looks at timeouts, also
// if it learns of the message while it sleeps.
func TestDueAtItsTime(t *testing.T) {
	t.Parallel()
	const rounds, delay = 7, 10 * time.Millisecond
	write := func(q *Queue, delay time.Duration) error {
		_, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: delay})
		return err
	}
	for name, bring := range map[string]func(q *Queue, held []Message) error{
		"a delay": func(q *Queue, _ []Message) error { return write(q, delay) },
		"a retry": func(q *Queue, held []Message) error {
			_, err := q.Nack(t.Context(), NackConfig{Delay: delay}, receipts(held)...)
			return err
		},
		"a throttle": func(q *Queue, held []Message) error { return throttle(t, q, held[0], delay) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := lazyServer(t)
			other, q := openOn(t, server.Client(t), "x", Config{MaxAttempts: 100}), openOn(t, server.Client(t), "x", Config{MaxAttempts: 100})
			var took []time.Duration
			for range rounds {
				want(t, "write", nil, nil, write(other, 0))
				held := read(t, other, 1)
				got := make(chan Message, 1)
				go func() { got <- eventually(t, q) }()
				blockedReaders(t, server, 1)
				began := time.Now()
				want(t, "what is due soon", nil, nil, bring(other, held))
				m := <-got
				took = append(took, time.Since(began))
				ack(t, q, m)
				if _, err := other.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(took)
			if median := took[rounds/2]; median > 20*delay {
				t.Errorf("what is due after %v comes after %v, want it at once: %v", delay, median, took)
			}
		})
	}
}
