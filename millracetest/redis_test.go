package millracetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/millracetest"
)

// TestServersAreApart: what a test writes is not in the server of another one.
func TestServersAreApart(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *millracetest.Server) {
		write(t, newQueue(t, s, fairqueue.Config{}), fairqueue.Draft{Tenant: "a"})
		other := millracetest.Start(t, s.Kind)
		if n, err := newQueue(t, other, fairqueue.Config{}).Len(t.Context()); n != 0 || err != nil {
			t.Errorf("another server has %d messages, %v", n, err)
		}
		if s.Kind != other.Kind || s.URL == other.URL {
			t.Errorf("the servers are %s at %s and %s at %s", s.Kind, s.URL, other.Kind, other.URL)
		}
		client, err := dial.Redis(t.Context(), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		q, err := fairqueue.New(client, "orders", fairqueue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		millracetest.WantCounts(t, q, millracetest.Counts{Waiting: 1})
		if ahead := time.Until(now(t, s)); ahead < -time.Minute || ahead > time.Minute {
			t.Errorf("the server's clock is %s ahead", ahead)
		}
	})
}

// TestWithoutAServer needs the environment for itself.
func TestWithoutAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("MILLRACE_TEST_SERVER", "")
	if got := millracetest.Start(t, millracetest.Any).Kind; got != millracetest.Mini {
		t.Errorf("without a server Start starts %q, want miniredis", got)
	}
	client := millracetest.Redis(t)
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Error(err)
	}
	start := func(t testing.TB) { millracetest.Start(t, millracetest.Real) }
	t.Setenv("CI", "")
	wantText(t, try(t, start).skipped, "needs a real Redis server", "Install one")
	t.Setenv("CI", "1")
	wantText(t, try(t, start).fatal, "needs a real Redis server", "Install one")
	wantText(t, try(t, func(t testing.TB) { millracetest.Start(t, "big") }).fatal, `"big"`, "Mini")
}

// TestAdvance: delays, visibilities, leases and TTLs end by the clock that the test moves.
func TestAdvance(t *testing.T) {
	t.Parallel()
	s := millracetest.Start(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{})
	locker, err := lease.New(s.Client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.Advance(0)
	began := now(t, s)
	if _, err := locker.Acquire(t.Context(), "x", time.Hour, lease.AcquireConfig{}); err != nil {
		t.Fatal(err)
	}
	write(t, q, fairqueue.Draft{Tenant: "a", Delay: time.Hour})
	if err := s.Client.Do(t.Context(), s.Client.B().Set().Key("k").Value("v").Ex(time.Hour).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	read := func(want int) {
		t.Helper()
		if messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Visibility: time.Hour}); len(messages) != want || err != nil && !errors.Is(err, fairqueue.ErrEmpty) {
			t.Errorf("Read = %v, %v, want %d", messages, err, want)
		}
	}
	s.Advance(time.Hour - time.Millisecond)
	millracetest.WantHeld(t, locker, "x")
	read(0)
	s.Advance(101 * time.Millisecond)
	millracetest.WantFree(t, locker, "x")
	if n, err := s.Client.Do(t.Context(), s.Client.B().Exists().Key("k").Build()).AsInt64(); n != 0 || err != nil {
		t.Errorf("a key lives longer than its TTL: %d, %v", n, err)
	}
	read(1)
	read(0)
	s.Advance(time.Hour)
	read(1)
	if passed := now(t, s).Sub(began); passed != 2*time.Hour+100*time.Millisecond {
		t.Errorf("%s passed, want what the test advanced", passed)
	}
	wantText(t, try(t, func(tb testing.TB) { startOn(tb, millracetest.Mini).Advance(-1) }).fatal, "only moves forward")
	wantText(t, try(t, func(tb testing.TB) { startOn(tb, millracetest.Real).Advance(1) }).fatal, "millracetest.Mini")
}

// TestSleepersNotice: a program consumes in the background, and the test moves the clock.
func TestSleepersNotice(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{})
	write(t, q, fairqueue.Draft{Tenant: "a", Delay: time.Hour}, fairqueue.Draft{Tenant: "b"})
	handled, ended := make(chan string), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- q.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, msg fairqueue.Message) error {
			handled <- msg.Tenant
			return nil
		})
	}()
	for _, want := range []string{"b", "a"} {
		select {
		case got := <-handled:
			if got != want {
				t.Errorf("handled %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%q is not handled", want)
		}
		redistest.Eventually(t, "it is acknowledged", func() bool { // or its visibility ends, too
			stats, err := q.Stats(t.Context())
			return err == nil && stats.InFlight == 0
		})
		s.Advance(time.Hour + 100*time.Millisecond)
	}
	cancel()
	<-ended
}

func startOn(t testing.TB, kind string) *millracetest.Server {
	t.Helper()
	return millracetest.Start(t, kind)
}

// now returns the time of the server's clock, by which Millrace decides.
func now(t *testing.T, s *millracetest.Server) time.Time {
	t.Helper()
	clock, err := s.Client.Do(t.Context(), s.Client.B().Time().Build()).AsIntSlice()
	if err != nil || len(clock) != 2 {
		t.Fatalf("TIME = %v, %v", clock, err)
	}
	return time.Unix(clock[0], clock[1]*int64(time.Microsecond))
}
