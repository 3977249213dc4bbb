package scatter

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// forgetFlight has so much time pass for a server and a session on its way to it that
// the server has forgotten the session.
func forgetFlight(t *testing.T, sc *Scatter, server *redistest.Server, s *Session) {
	t.Helper()
	age(t, sc, server)
	if s.sent.by == "" {
		return // it has not been sent
	}
	s.sent.by = "1"
}

// TestRepeatThatIsTooLate: a repeated flush fails as uncertain when the server has forgotten the first
// try, and nothing counts twice. The session can be used again.
func TestRepeatThatIsTooLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hurt, mend func(*redistest.Server, *redistest.Proxy)
	}{
		"the reply is lost": {
			func(_ *redistest.Server, p *redistest.Proxy) { p.DropReplyWhen(redistest.Named("EVALSHA", "EVAL")) },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Heal() },
		},
		"the server is paused": {
			func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := startServers(t, 1)
			sc, proxies := throughProxies(t, servers, Config{Timeout: brief})
			s := sc.Session("x")
			s.Add("n", 1)
			arrive(t, s)
			tt.hurt(servers[0], proxies[0])
			s.Add("n", 10)
			if err := s.Flush(t.Context()); err == nil {
				t.Fatal("a flush without a reply succeeds")
			}
			tt.mend(servers[0], proxies[0])
			c := servers[0].Client(t)
			redistest.Eventually(t, "the first try is done", func() bool { return text(t, c, "GET", "n") == "11" })
			forgetFlight(t, sc, servers[0], s)
			s.Add("n", 100) // goes with the next one
			redistest.Eventually(t, "the repeat is refused", func() bool {
				err := s.Flush(t.Context())
				if err == nil {
					t.Fatal("a flush with an unknown outcome succeeds")
				}
				return errors.Is(err, millrace.ErrUncertain) && errors.Is(err, millrace.ErrStale)
			})
			arrive(t, s)
			if got := text(t, c, "GET", "n"); got != "111" {
				t.Errorf("sum = %s, want 111", got)
			}
		})
	}
}

// TestRepeatOfWhatWasNeverSent: as long as no try can have reached the server, a repeat
// may come at any time.
func TestRepeatOfWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	sc := scatterOver(t, []Server{{Name: "s0", Option: optionOf(server)}}, Config{Timeout: brief})
	s := sc.Session("x")
	s.Add("n", 1)
	arrive(t, s)
	server.Kill()
	s.Add("n", 10)
	// The first tries after the end may meet the connection that was open. Later ones
	// find none, but a session that met it stays uncertain.
	redistest.Eventually(t, "connections are refused", func() bool {
		other := sc.Session("x")
		other.Add("other", 1)
		if other.Flush(t.Context()) == nil {
			t.Fatal("a flush to a dead server succeeds")
		}
		return !other.sent.open
	})
	if err := s.Flush(t.Context()); err == nil {
		t.Fatal("a flush to a dead server succeeds")
	}
	if s.sent.open || s.sent.request != nil {
		t.Fatal("a flush that found no connection counts as sent")
	}
	server.Restart()
	forgetFlight(t, sc, server, s)
	arrive(t, s)
	if got := text(t, server.Client(t), "GET", "n"); got != "10" { // it keeps nothing
		t.Errorf("sum = %s, want 10", got)
	}
}

// TestServerClockJumps: a first try that is refused as too old, because the server's
// clock has jumped, was not done for certain, and the next one finds the right time.
func TestServerClockJumps(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	sc.servers[0].heard(time.Now().Add(-time.Hour).UnixMilli())
	s := sc.Session("x")
	s.Add("n", 1)
	if err := s.Flush(t.Context()); err == nil || millrace.Code(err) == millrace.ErrUncertain.Code {
		t.Errorf("Flush by an old clock = %v, want an error that is not uncertain", err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := text(t, servers[0].Client(t), "GET", "n"); got != "1" {
		t.Errorf("sum = %s, want 1", got)
	}
}

// TestServerTime: a server's time is asked for once, and again when it has told none for
// a while by either of the process's clocks.
func TestServerTime(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	asked := 0
	sc := newScatter(t, servers, Config{Hooks: []millrace.Hook{onCall(func() { asked++ })}})
	srv := sc.servers[0]
	l, err := srv.connected(t.Context(), sc)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		told            bool
		heardAt, wallAt time.Duration // before now
		asked           int
	}{
		{false, 0, 0, 1},
		{true, 0, 0, 1},
		{true, clockTTL, 0, 2},
		{true, 0, clockTTL, 3},
	} {
		if now := time.Now(); tt.told {
			srv.clock.Store(&clock{now.UnixMilli(), now.Add(-tt.heardAt), now.Round(0).Add(-tt.wallAt)})
		}
		before := time.Now().UnixMilli()
		got, err := srv.now(t.Context(), sc, l)
		if err != nil || got < before-1000 || got > time.Now().UnixMilli()+1000 || asked != tt.asked {
			t.Errorf("%d: now = %d, %v, %d times asked, want %d and %d times", i, got, err, asked, before, tt.asked)
		}
	}
}

// TestTallyDropsWhatNobodyKnows: a flush with an unknown outcome is dropped and logged
// with its amounts, and the tally goes on.
func TestTallyDropsWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	var log bytes.Buffer
	sc, proxies := throughProxies(t, servers, Config{Timeout: brief, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tally, err := sc.Tally(TallyConfig{Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	flush(t, sc, func(s *Session) { s.Add("n", 1) })
	proxies[0].DropReplyWhen(redistest.Named("EVALSHA"))
	add(t, tally, "n", 10)
	if _, err := tally.round(t.Context()); err == nil {
		t.Fatal("a round without a reply succeeds")
	}
	proxies[0].Heal()
	c := servers[0].Client(t)
	redistest.Eventually(t, "the first try is done", func() bool { return text(t, c, "GET", "n") == "11" })
	forgetFlight(t, sc, servers[0], tally.bundles[0])
	add(t, tally, "n", 100)
	redistest.Eventually(t, "nothing waits", func() bool {
		left, err := tally.round(t.Context())
		return left == 0 && err == nil
	})
	if err := tally.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := text(t, c, "GET", "n"); got != "111" {
		t.Errorf("sum = %s, want 111", got)
	}
	if !strings.Contains(log.String(), "key=n kind=add add=10 ") || strings.Contains(log.String(), "add=100") {
		t.Errorf("log = %q, want what was dropped", log.String())
	}
}

// TestEviction: a server that may evict counters, or its memory of flushes, is not
// written to unless that is accepted.
func TestEviction(t *testing.T) {
	t.Parallel()
	for policy, evicts := range map[string]bool{"noeviction": false, "volatile-lru": true, "volatile-ttl": true, "allkeys-lru": true} {
		server := redistest.Start(t, redistest.Options{MaxMemory: "50mb", Policy: policy})
		list := func() []Server { return []Server{{Name: "s", Option: optionOf(server)}} }
		var want error
		if evicts {
			want = millrace.ErrEvictable
		}
		s := scatterOver(t, list(), Config{}).Session("x")
		s.Add("n", 1)
		err := s.Flush(t.Context())
		wantError(t, err, want)
		if evicts && (!strings.Contains(err.Error(), policy) || !strings.Contains(millrace.Hint(err), "to noeviction, or")) {
			t.Errorf("error %q does not name the policy %s", err, policy)
		}
		if got := integer(t, server.Client(t), "DBSIZE"); (got == 0) != evicts {
			t.Errorf("%s: %d keys", policy, got)
		}
		accepting := scatterOver(t, list(), Config{AllowEvictable: true})
		flush(t, accepting, func(s *Session) { s.Add("n", 1) })
		if err := accepting.Gather().Read(t.Context()); err != nil {
			t.Error(err)
		}
		client := server.Client(t)
		must(t, client, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		other := scatterOver(t, list(), Config{}).Session("x")
		other.Add("n", 1)
		if err := other.Flush(t.Context()); err != nil {
			t.Errorf("%s was changed: %v", policy, err)
		}
	}
}
