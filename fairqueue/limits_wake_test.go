package fairqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// limitHistories are ways in which limits could keep a reader waiting, or let too much pass.
var limitHistories = []history{
	{"a sleeping reader and a slot that gets free", Config{MaxAttempts: 100}, func(h *hand) error {
		if err := h.limit("a", queuestats.Limits{MaxInFlight: 1}); err != nil {
			return err
		}
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error {
			_, err := h.watch.Ack(h.t.Context(), m.Receipt)
			return err
		}, func(next Message) { m = next })
	}},
	{"a sleeping reader and a slot of a delayed message", Config{MaxAttempts: 100}, func(h *hand) error {
		if err := h.limit("a", queuestats.Limits{MaxInFlight: 1}); err != nil {
			return err
		}
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error {
			_, err := h.watch.Nack(h.t.Context(), NackConfig{Delay: time.Hour}, m.Receipt)
			return err
		}, func(next Message) { m = next })
	}},
	{"a sleeping reader and a rate", Config{}, func(h *hand) error {
		if err := h.limit("", queuestats.Limits{Rate: 10, Burst: 1}); err != nil {
			return err
		}
		write(h.t, h.watch, "a:x")
		h.read(1, time.Hour)
		return h.wakes(func() error { write(h.t, h.watch, "a:x"); return nil })
	}},
	{"a sleeping reader and a throttle", Config{MaxAttempts: 100}, func(h *hand) error {
		write(h.t, h.watch, "a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error { return h.throttle(m, 100*time.Millisecond) }, func(again Message) { m = again })
	}},
	{"a sleeping reader and the end of a pause", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:first")
		ack(h.t, h.watch, h.read(1, time.Hour)...)
		return h.wakes(func() error {
			if err := h.watch.Limits().Pause(h.t.Context(), "a", 100*time.Millisecond); err != nil {
				return err
			}
			write(h.t, h.watch, "a:x")
			return nil
		})
	}},
	{"a sleeping reader and a tenant that is resumed", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:x a:x a:x a:x a:x")
		return h.wakesFrom(func() error { return h.watch.Limits().Pause(h.t.Context(), "a", 0) },
			func() error { return h.watch.Limits().Resume(h.t.Context(), "a") })
	}},
	{"a sleeping reader and limits that change", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		if err := h.limit("other", queuestats.Limits{MaxInFlight: 1}); err != nil { // deliveries before the first limit do not count
			return err
		}
		h.read(1, time.Hour)
		return h.wakesFrom(func() error { return h.limit("a", queuestats.Limits{MaxInFlight: 1}) },
			func() error { return h.limit("a", queuestats.Limits{}) })
	}},
	{"a sleeping reader and a default that changes", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		if err := h.limit("other", queuestats.Limits{MaxInFlight: 1}); err != nil { // deliveries before the first limit do not count
			return err
		}
		h.read(1, time.Hour)
		return h.wakesFrom(func() error { return h.limit("", queuestats.Limits{MaxInFlight: 1}) },
			func() error { return h.limit("", queuestats.Limits{}) })
	}},
	{"a sleeping reader and tenants that slept by the rate of an earlier default", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x a:x")
		ctx, all := h.t.Context(), ""
		return h.wakesFrom(func() error {
			if err := h.limit(all, queuestats.Limits{Rate: 0.0001, Burst: 1}); err != nil {
				return err
			}
			for got := h.read(1, time.Hour); len(got) > 0; got = h.read(1, time.Hour) {
				ack(h.t, h.watch, got...)
			}
			_, err := h.watch.changeTenant(ctx, defaultField, "limit", "- - - - - - -", "0") // the caller is killed here
			return err
		}, func() error { return h.watch.Limits().review(ctx) })
	}},
	{"a sleeping reader and a pause of a tenant with a slot that gets free meanwhile", Config{}, func(h *hand) error {
		a := "a"
		if err := h.limit(a, queuestats.Limits{MaxInFlight: 1}); err != nil {
			return err
		}
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error {
			if err := h.watch.Limits().Pause(h.t.Context(), a, 100*time.Millisecond); err != nil {
				return err
			}
			ack(h.t, h.watch, m)
			return nil
		}, func(next Message) { m = next })
	}},
	{"a sleeping reader and a slot of a message that upkeep finds dead", Config{MaxAttempts: 1}, func(h *hand) error {
		if err := h.limit("a", queuestats.Limits{MaxInFlight: 1}); err != nil {
			return err
		}
		write(h.t, h.watch, "a:x a:x a:x a:x a:x a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error {
			if _, err := h.watch.Extend(h.t.Context(), minVisibility, m.Receipt); err != nil {
				return err
			}
			passes(h.t, h.watch.run.Client, 2*minVisibility)
			_, err := h.watch.tend(h.t.Context(), "1")
			return err
		}, func(next Message) { m = next })
	}},
	{"a throttle is repeated", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 5 { // no attempt
			m := h.read(1, time.Hour)
			if len(m) != 1 || m[0].Attempt != 1 {
				return wrong("read %+v, want it at its first attempt", m)
			}
			h.lose()
			if err := h.throttle(m[0], time.Hour); err != nil {
				return err
			}
			if left := h.read(1, time.Hour); len(left) > 0 {
				return wrong("a message of a throttled tenant was delivered")
			}
			if err := h.watch.Limits().Resume(h.t.Context(), "a"); err != nil {
				return err
			}
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"calls that change limits are repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2")
		a := "a"
		h.lose()
		if err := h.q.Limits().Set(h.t.Context(), a, OwnLimits{MaxInFlight: new(1)}); err != nil {
			return err
		}
		l, err := h.watch.Limits().Get(h.t.Context(), a)
		if err != nil || l.Own.MaxInFlight == nil || l.MaxInFlight != 1 {
			return wrong("limits = %+v, %w, want one delivery at once", l, err)
		}
		for _, call := range []func() error{
			func() error { return h.q.Limits().Pause(h.t.Context(), a, 0) },
			func() error { return h.q.Limits().Resume(h.t.Context(), a) },
			func() error { return h.q.Limits().Clear(h.t.Context(), a) },
			func() error { _, err := h.q.Limits().Get(h.t.Context(), a); return err },
		} {
			h.lose()
			if err := call(); err != nil {
				return err
			}
		}
		h.lose()
		n, err := h.q.PurgeTenant(h.t.Context(), a)
		if err != nil || n != 1 {
			return wrong("purge = %d, %w", n, err)
		}
		return h.sizes(1, 0, 0, 0)
	}},
}

// limit gives a tenant limits.
func (h *hand) limit(of string, l queuestats.Limits) error {
	return h.watch.Limits().Set(h.t.Context(), of, ownOf(l))
}

// throttle gives a message back as a handler does that returns Throttle.
func (h *hand) throttle(m Message, d time.Duration) error {
	return throttle(h.t, h.q, m, d)
}

// wakesFrom is wakes where each round starts with something that holds messages back.
func (h *hand) wakesFrom(hold, bring func() error) error {
	if err := hold(); err != nil {
		return err
	}
	var failed error
	err := h.wakes(bring, func(m Message) {
		failed = errors.Join(failed, hold())
		ack(h.t, h.watch, m)
	})
	return errors.Join(failed, err)
}

// TestLimitHistories plays them all on the scripts as they are.
func TestLimitHistories(t *testing.T) {
	t.Parallel()
	for _, hist := range limitHistories {
		t.Run(hist.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, hist, library); err != nil {
				t.Error(err)
			}
		})
	}
}
