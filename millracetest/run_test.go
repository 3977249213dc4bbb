package millracetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/schedule"
)

// TestRunUntilEmpty has a handler whose messages end in all ways.
func TestRunUntilEmpty(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		for _, body := range []string{"ok", "again", "later", "never", "panic", "exit"} {
			write(t, q, fairqueue.Draft{Tenant: body, Body: []byte(body)})
		}
		write(t, q, fairqueue.Draft{Tenant: "delayed", Delay: 50 * time.Millisecond}, fairqueue.Draft{Tenant: "far", Delay: time.Hour})
		got := millracetest.RunUntilEmpty(t, q, func(ctx context.Context, msg fairqueue.Message) error {
			switch first := msg.Attempt == 1; {
			case string(msg.Body) == "never":
				return fairqueue.NoRetry(errOdd)
			case string(msg.Body) == "later" && first:
				return fairqueue.RetryAfter(30*time.Millisecond, errOdd)
			case string(msg.Body) == "again" && first:
				return errOdd
			case string(msg.Body) == "panic" && first:
				panic("panic")
			case string(msg.Body) == "exit" && first:
				runtime.Goexit()
			case string(msg.Body) == "ok":
				_, err := q.Write(ctx, fairqueue.Draft{Tenant: "follows"})
				return err
			}
			return nil
		}, millracetest.RunConfig{
			Consume: fairqueue.ConsumeConfig{Backoff: func(int, error) time.Duration { return 20 * time.Millisecond }},
			Within:  10 * time.Minute, Clock: s,
		})
		var handled, failed []string
		for _, msg := range got.Handled {
			handled = append(handled, fmt.Sprint(msg.Tenant, msg.Attempt))
		}
		for _, f := range got.Failed {
			failed = append(failed, fmt.Sprint(f.Message.Tenant, " ", f.Err))
		}
		slices.Sort(handled)
		slices.Sort(failed)
		if want := []string{"again2", "delayed1", "exit2", "follows1", "later2", "ok1", "panic2"}; !slices.Equal(handled, want) {
			t.Errorf("handled = %q, want %q", handled, want)
		}
		want := []string{"again odd", "exit the handler did not return", "later odd", "never odd", "panic the handler did not return"}
		if !slices.Equal(failed, want) {
			t.Errorf("failed = %q, want %q", failed, want)
		}
		if len(got.Dead) != 1 || got.Dead[0].Tenant != "never" || got.Delayed != 1 || got.InFlight != 0 {
			t.Errorf("left: %+v", got)
		}
		millracetest.WantCounts(t, q, millracetest.Counts{Delayed: 1, Dead: 1})
	})
}

// TestRunGoesNoFurther: the run stops before later messages, and goes on to them with Within.
func TestRunGoesNoFurther(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{MaxAttempts: 3})
	fail := func(context.Context, fairqueue.Message) error { return errOdd }
	if got := millracetest.RunUntilEmpty(t, q, fail, millracetest.RunConfig{}); len(got.Failed)+len(got.Dead) != 0 {
		t.Errorf("the run of a queue that does not exist = %+v", got)
	}
	write(t, q, fairqueue.Draft{Tenant: "a"})
	got := millracetest.RunUntilEmpty(t, q, fail, millracetest.RunConfig{})
	if len(got.Failed) != 1 || !errors.Is(got.Failed[0].Err, errOdd) || got.Delayed != 1 || len(got.Dead) != 0 {
		t.Errorf("a run that goes no further = %+v, want one failure and a retry that is delayed", got)
	}
	got = millracetest.RunUntilEmpty(t, q, fail, millracetest.RunConfig{Within: time.Hour, Clock: s})
	if len(got.Failed) != 2 || got.Delayed != 0 || len(got.Dead) != 1 {
		t.Errorf("a run of an hour = %+v, want two failures and the message dead", got)
	}

	// A message that another reader has comes when its visibility ends.
	write(t, q, fairqueue.Draft{Tenant: "b"})
	if _, err := q.Read(t.Context(), fairqueue.ReadConfig{Visibility: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if got = millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{}); len(got.Handled) != 0 || got.InFlight != 1 {
		t.Errorf("a run beside another reader = %+v, want one in flight", got)
	}
	if got = millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Within: time.Hour, Clock: s}); len(got.Handled) != 1 || got.InFlight != 0 {
		t.Errorf("a run after another reader = %+v, want one handled", got)
	}
}

func TestRunOfAPausedQueue(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		write(t, q, fairqueue.Draft{Tenant: "a"})
		if err := q.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := try(t, func(t testing.TB) { millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{}) })
		wantText(t, got.fatal, `"orders" is paused`, "Resume")
	})
}

// TestRunOfABrokenQueue: an error of the queue fails the test at once.
func TestRunOfABrokenQueue(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		write(t, q, fairqueue.Draft{Tenant: "a"})
		run := func(cfg millracetest.RunConfig) string {
			return try(t, func(t testing.TB) { millracetest.RunUntilEmpty(t, q, succeed, cfg) }).fatal
		}
		wantText(t, run(millracetest.RunConfig{Consume: fairqueue.ConsumeConfig{Concurrency: -1}}), `the consumer of queue "orders" ended`, "Concurrency")
		if err := s.Client.Do(t.Context(), s.Client.B().Set().Key("mr:queue:{orders}").Value("text").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		wantText(t, run(millracetest.RunConfig{}), `the state of queue "orders"`)
		wantText(t, try(t, func(t testing.TB) { millracetest.WantCounts(t, q, millracetest.Counts{}) }).fatal, `the state of queue "orders"`)
	})
}

// TestRunOfManyHandlers: with concurrency nothing is lost or done twice.
func TestRunOfManyHandlers(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		q := newQueue(t, s, fairqueue.Config{})
		const n = 100
		for i := range n {
			write(t, q, fairqueue.Draft{Tenant: fmt.Sprint(i % 7)})
		}
		got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Consume: fairqueue.ConsumeConfig{Concurrency: 10}})
		seen := map[string]bool{}
		for _, msg := range got.Handled {
			seen[msg.ID] = true
		}
		if len(got.Handled) != n || len(seen) != n {
			t.Errorf("%d deliveries of %d messages, want %d", len(got.Handled), len(seen), n)
		}
		millracetest.WantCounts(t, q, millracetest.Counts{})
	})
}

// TestRunAfterAdvance: a message became due between two looks of the queue, on a clock that stands.
func TestRunAfterAdvance(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{})
	s.Advance(0)
	write(t, q, fairqueue.Draft{Tenant: "a", Delay: 5 * time.Millisecond}, fairqueue.Draft{Tenant: "b"})
	if got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Clock: s}); len(got.Handled) != 1 || got.Delayed != 1 {
		t.Errorf("the first run = %+v, want one handled and one delayed", got)
	}
	s.Advance(10 * time.Millisecond)
	if got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Clock: s}); len(got.Handled) != 1 || got.Delayed != 0 {
		t.Errorf("the second run = %+v, want one handled", got)
	}
}

// TestRunOfASchedule: the run goes from tick to tick.
func TestRunOfASchedule(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{})
	hourly, err := schedule.Every(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Schedules().Set(t.Context(), fairqueue.Schedule{Name: "report", Spec: hourly, Draft: fairqueue.Draft{Tenant: "acme"}}); err != nil {
		t.Fatal(err)
	}
	if got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Clock: s}); len(got.Handled) != 0 {
		t.Errorf("a run before the tick = %+v", got)
	}
	got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Within: 3 * time.Hour, Clock: s})
	var ticks []string
	for _, msg := range got.Handled {
		ticks = append(ticks, msg.Headers[fairqueue.HeaderTick])
	}
	if slices.Sort(ticks); len(slices.Compact(ticks)) != 3 {
		t.Errorf("a run of three hours handled the ticks %q, want three", ticks)
	}
	s.Advance(time.Hour) // it ticks while nothing runs
	if got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Clock: s}); len(got.Handled) != 1 {
		t.Errorf("a run after a tick = %+v, want one handled", got)
	}
	if err := q.Schedules().Pause(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	if got := millracetest.RunUntilEmpty(t, q, succeed, millracetest.RunConfig{Within: 5 * time.Hour, Clock: s}); len(got.Handled) != 0 {
		t.Errorf("a run of a paused schedule = %+v", got)
	}
}
