package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"
)

// onMiniredis returns a server whose clock the test sets, and a locker on it.
func onMiniredis(t *testing.T) (*miniredis.Miniredis, *Locker) {
	t.Helper()
	server := miniredis.RunT(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return server, openOn(t, client, Config{})
}

// noon is the first time of the servers of these tests.
var noon = time.Date(2040, time.January, 1, 12, 0, 0, 0, time.UTC)

// TestFencesWhenTheClockIsBehind says exactly when a fence is larger than an earlier one: if the
// server has the lease's key, or its clock has passed the moment at which the earlier one was given.
func TestFencesWhenTheClockIsBehind(t *testing.T) {
	t.Parallel()
	const name = "name"
	server, l := onMiniredis(t)
	clock := noon
	set := func(at time.Time) { clock = at; server.SetTime(at) }
	pass := func(d time.Duration) { set(clock.Add(d)); server.FastForward(d) }

	set(noon)
	first := hold(t, l, name, "a")
	if first != noon.UnixMicro() {
		t.Fatalf("the fence is %d, want the clock, %d", first, noon.UnixMicro())
	}
	set(noon.Add(-time.Hour)) // while the lease is held
	release(t, l, name, "a")
	var last int64
	for i := range 8 { // until the clock has passed the first fence
		pass(10 * time.Minute)
		fence := hold(t, l, name, "b")
		if fence <= max(first, last) {
			t.Errorf("%d minutes after the release the fence is %d, want more than %d and %d", 10*(i+1), fence, first, last)
		}
		last = fence
		release(t, l, name, "b")
	}
	pass(time.Minute)
	if server.Exists(baseKey(name)) {
		t.Error("a released lease stays for more than a minute")
	}

	replica, l := onMiniredis(t) // it has lost the key, as after a failover
	replica.SetTime(noon.Add(-time.Microsecond))
	if fence := hold(t, l, "behind", "c"); fence >= first {
		t.Errorf("the fence of a clock that is behind is %d: this shows nothing", fence)
	}
	replica.SetTime(noon.Add(time.Microsecond))
	if fence := hold(t, l, name, "c"); fence <= first {
		t.Errorf("the fence of a clock that has passed the first is %d, want more than %d", fence, first)
	}
}

// TestClockJumps has the server's clock jump while holders come, renew and die. A caller that finds a lease held waits
// for one TTL at most, also if a clock that was ahead wrote the deadline. No holder loses its lease before its time is
// over in truth, unless the clock jumped forward.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	server, l := onMiniredis(t)
	const most = 10 * time.Second // of a TTL
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name, now, ahead := fmt.Sprint("name", n), noon, time.Duration(0)
		relies := map[string]time.Time{} // until when in truth each holder relies on the lease
		ttl := func() time.Duration {
			return time.Duration(rapid.Int64Range(10, most.Milliseconds()).Draw(rt, "ttl")) * time.Millisecond
		}
		acquire := func(token string, ttl time.Duration) (wait time.Duration) {
			server.SetTime(now.Add(ahead))
			g, held, err := l.ask(t.Context(), request{name: name, token: token, ttl: ttl})
			if err != nil {
				rt.Fatal(err)
			}
			if held != nil {
				if held.Remaining > most {
					rt.Fatalf("%s finds the lease held for %s, want at most %s", token, held.Remaining, most)
				}
				return held.Remaining
			}
			for other, until := range relies {
				if other != token && now.Before(until) {
					rt.Fatalf("%s acquires the lease, and %s relies on it for another %s", token, other, until.Sub(now))
				}
			}
			relies = map[string]time.Time{token: now.Add(g.remaining)}
			return 0
		}
		token := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "token") }
		rt.Repeat(map[string]func(*rapid.T){
			"jump": func(*rapid.T) {
				before := ahead
				ahead = rapid.SampledFrom([]time.Duration{-time.Hour, -time.Second, 0, time.Second, time.Hour}).Draw(rt, "ahead")
				if ahead > before {
					clear(relies) // by the server's clock their deadlines may have passed
				}
			},
			"pass":    func(*rapid.T) { now = now.Add(ttl()) },
			"acquire": func(*rapid.T) { acquire(token(), ttl()) },
			"refresh": func(*rapid.T) {
				token := token()
				server.SetTime(now.Add(ahead))
				info, err := l.Refresh(t.Context(), name, token, ttl())
				switch {
				case errors.Is(err, ErrLost) && now.Before(relies[token]):
					rt.Fatalf("%s loses the lease %s before its end", token, relies[token].Sub(now))
				case err != nil && !errors.Is(err, ErrLost):
					rt.Fatal(err)
				case err == nil && info.Remaining > most:
					rt.Fatalf("%s has the lease for %s, want at most %s", token, info.Remaining, most)
				case err == nil:
					relies = map[string]time.Time{token: now.Add(info.Remaining)}
				}
			},
			"release": func(*rapid.T) {
				token := token()
				server.SetTime(now.Add(ahead))
				if err := l.Release(t.Context(), name, token); err != nil && !errors.Is(err, ErrLost) {
					rt.Fatal(err)
				}
				delete(relies, token)
			},
		})
		ahead = 0
		clear(relies) // all holders are dead
		now = now.Add(acquire("d", most))
		if left := acquire("d", most); left != 0 {
			rt.Errorf("the lease of a dead holder is held for another %s after a wait", left)
		}
	})
}

// TestServerDeadlineAfterASetBack: a lease that is renewed after the clock was set back has a deadline by the clock.
func TestServerDeadlineAfterASetBack(t *testing.T) {
	t.Parallel()
	server, l := onMiniredis(t)
	server.SetTime(noon.Add(time.Hour))
	held := acquire(t, l, "name", long)
	server.SetTime(noon)
	if err := held.Refresh(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Show(t.Context(), "name"); err != nil || !got.Deadline.Equal(noon.Add(long)) {
		t.Errorf("deadline %s, %v, want %s", got.Deadline, err, noon.Add(long))
	}
}

// TestReapAfterASetBack: an abandoned lease is removed a minute after its time, though a clock that was ahead wrote its
// deadline.
func TestReapAfterASetBack(t *testing.T) {
	t.Parallel()
	server, l := onMiniredis(t)
	const ttl = 2 * time.Hour
	server.SetTime(noon)
	if _, held, err := l.ask(t.Context(), request{name: "name", token: "a", ttl: ttl}); held != nil || err != nil {
		t.Fatal(held, err)
	}
	server.SetTime(noon.Add(time.Hour))
	if _, err := l.Refresh(t.Context(), "name", "a", ttl); err != nil {
		t.Fatal(err)
	}
	server.SetTime(noon)
	reap := func() (removed bool, again time.Duration) {
		t.Helper()
		reply, err := l.run.Run(t.Context(), "reap", baseKey("name"))
		if err != nil {
			t.Fatal(err)
		}
		return reply.Bool(), reply.Millis()
	}
	removed, again := reap()
	if most := ttl + time.Minute + time.Second; removed || again > most {
		t.Errorf("removed %v, to be visited again in %s, want that it stays, for at most %s", removed, again, most)
	}
	server.SetTime(noon.Add(again))
	if removed, again := reap(); !removed {
		t.Errorf("it stays for another %s", again)
	}
}

// TestOnceWhenTheClockGoesBack: a small step back does not end the record of a success before its period, and a record
// of a clock that was far ahead keeps work from being done for two periods at most.
func TestOnceWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	server, l := onMiniredis(t)
	once := func(name string, at time.Time) bool {
		t.Helper()
		server.SetTime(at)
		ran, err := l.Once(t.Context(), name, long, Every(time.Hour), func(context.Context, int64) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return ran
	}
	end := noon.Add(time.Hour)
	if !once("step", end.Add(-10*time.Second)) {
		t.Error("the first call does not run")
	}
	for _, left := range []time.Duration{30 * time.Second, 20 * time.Second, time.Second, time.Millisecond} {
		if once("step", end.Add(-left)) {
			t.Errorf("%s before the end of the period it runs again", left)
		}
	}
	if !once("step", end) {
		t.Error("in the next period it does not run")
	}
	if !once("year", noon.AddDate(1, 0, 0)) {
		t.Error("the first call does not run")
	}
	once("year", noon)
	if !once("year", noon.Add(2*time.Hour)) {
		t.Error("two periods after a clock that was a year ahead it does not run")
	}
}
