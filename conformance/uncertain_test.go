package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/tracker"
)

// pair is a call of a structure that writes, and one that only reads.
type pair struct {
	write, read func(ctx context.Context) error
}

// pairs open one structure each.
var pairs = map[string]func(t *testing.T, client rueidis.Client) pair{
	"ick": func(t *testing.T, client rueidis.Client) pair {
		k := openIck(t, client, "dirty")
		return pair{
			func(ctx context.Context) error { return second(k.AddNow(ctx, "x")) },
			func(ctx context.Context) error { return second(k.Stats(ctx)) },
		}
	},
	"lease": func(t *testing.T, client rueidis.Client) pair {
		l, err := lease.New(client, lease.Config{})
		must(t, "lease", err)
		return pair{
			func(ctx context.Context) error {
				return second(l.Acquire(ctx, "job", time.Minute, lease.AcquireConfig{Token: "me"}))
			},
			func(ctx context.Context) error { return second(l.Show(ctx, "job")) },
		}
	},
	"expiry": func(t *testing.T, client rueidis.Client) pair {
		h, err := expiry.Open(t.Context(), client, "hashes", expiry.Config{})
		must(t, "expiry", err)
		return pair{
			func(ctx context.Context) error { return second(h.Incr(ctx, "hash", "field", 1)) },
			func(ctx context.Context) error { return second(h.Len(ctx, "hash")) },
		}
	},
	"pinned": func(t *testing.T, client rueidis.Client) pair {
		k, err := pinned.Open(t.Context(), client, "values", pinned.Config{})
		must(t, "pinned", err)
		return pair{
			func(ctx context.Context) error {
				return second(k.Set(ctx, "key", nil, time.Minute, pinned.SetConfig{}))
			},
			func(ctx context.Context) error { return second(k.GetMany(ctx, "key")) },
		}
	},
	"tracker": func(t *testing.T, client rueidis.Client) pair {
		tr, err := tracker.New(client, "rows", tracker.Config{})
		must(t, "tracker", err)
		return pair{
			func(ctx context.Context) error { return tr.Add(ctx, "1") },
			func(ctx context.Context) error { return second(tr.Queued(ctx, "1")) },
		}
	},
	"scatter": func(t *testing.T, client rueidis.Client) pair {
		values, err := scatter.New([]scatter.Server{{Client: client}}, scatter.Config{})
		must(t, "scatter", err)
		t.Cleanup(values.Close)
		return pair{
			func(ctx context.Context) error {
				s := values.Session("")
				s.Add("n", 1)
				return s.Flush(ctx)
			},
			func(ctx context.Context) error {
				g := values.Gather()
				g.Int("n")
				return g.Read(ctx)
			},
		}
	},
	"fairqueue": func(t *testing.T, client rueidis.Client) pair {
		q := openQueue(t, client, "queue")
		return pair{
			func(ctx context.Context) error { return second(q.Write(ctx, fairqueue.Draft{Tenant: "a"})) },
			func(ctx context.Context) error { return second(q.Stats(ctx)) },
		}
	},
}

func second[T any](_ T, err error) error { return err }

// TestUncertain: a call that writes, was sent and got no answer is uncertain, and its error is
// that of the caller's context, too. One that reads, or was never sent, is not uncertain.
func TestUncertain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr())
			client := proxy.Client(t)
			s := open(t, client)
			must(t, "the first write", s.write(t.Context()))
			must(t, "the first read", s.read(t.Context()))

			// The server executes the call, the reply is lost, and the caller leaves.
			ctx, cancel := context.WithCancel(t.Context())
			lost := proxy.DropReplyWhen(redistest.Script)
			go func() {
				<-lost.Done()
				cancel()
			}()
			wantUncertain(t, "a write whose reply is lost", s.write(ctx), context.Canceled)
			cancel()
			proxy.Heal()
			must(t, "a write after that", s.write(t.Context()))
			must(t, "a read after that", s.read(t.Context()))

			brief := func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			proxy.HalfClose()
			wantUncertain(t, "a write without a reply", whenSent(t, proxy, s.write), context.DeadlineExceeded)
			if err := s.read(brief()); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, millrace.ErrUncertain) {
				t.Errorf("a read without a reply: error = %v, want only that the context has ended", err)
			}
			proxy.Heal()
			must(t, "a write after that", s.write(t.Context()))

			proxy.Close()
			redistest.Eventually(t, "connections are refused", func() bool {
				return retry.Unsent(client.Do(t.Context(), client.B().Ping().Build()).Error())
			})
			// A context that ends during a try cannot tell, so another write may have to.
			redistest.Eventually(t, "a write that is never sent is not uncertain", func() bool {
				err := s.write(brief())
				return err != nil && !errors.Is(err, millrace.ErrUncertain)
			})
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			if err := s.write(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, millrace.ErrUncertain) {
				t.Errorf("a write after its context: error = %v, want only %v", err, context.Canceled)
			}
		})
	}
}

// whenSent calls write with a deadline, and again with a longer one if the deadline came
// before the write was sent.
func whenSent(t *testing.T, proxy *redistest.Proxy, write func(ctx context.Context) error) error {
	t.Helper()
	var sent atomic.Bool
	proxy.DropRequest(func(cmd []string) bool {
		sent.CompareAndSwap(false, redistest.Script(cmd))
		return false
	})
	for limit := 100 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := write(ctx)
		cancel()
		if sent.Load() || t.Context().Err() != nil {
			return err
		}
	}
}

func wantUncertain(t *testing.T, what string, err, cause error) {
	t.Helper()
	if !errors.Is(err, millrace.ErrUncertain) || !errors.Is(err, cause) {
		t.Errorf("%s: error = %v, want %v and %v", what, err, millrace.ErrUncertain, cause)
	}
}
