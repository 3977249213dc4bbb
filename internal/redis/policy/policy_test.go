package policy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// watch returns a watch and its log.
func watch(client rueidis.Client, allow bool) (*Watch, *bytes.Buffer) {
	logged := &bytes.Buffer{}
	return New(client, Config{
		One: "a thing", Many: "things", Allow: allow,
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
	}), logged
}

// refreshed has all nodes probed that are not left alone, and returns the refusal.
func refreshed(t *testing.T, w *Watch) error {
	t.Helper()
	redistest.Eventually(t, "no refresh is under way", func() bool { return !w.refreshing() })
	w.refresh(t.Context(), 0)
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
	return w.Check(t.Context())
}

// refreshing reports whether a refresh is in progress.
func (w *Watch) refreshing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.decided != nil
}

// age makes the verdict and the answers so much older. No refresh may be in progress.
func (w *Watch) age(by time.Duration) {
	v := *w.verdict.Load()
	v.at, v.due = v.at.Add(-by), v.due.Add(-by)
	w.verdict.Store(&v)
	for _, n := range w.nodes {
		n.at = n.at.Add(-by)
	}
}

func set(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// wantLog checks how often each level was logged, and forgets it.
func wantLog(t *testing.T, logged *bytes.Buffer, warnings, infos int) {
	t.Helper()
	text := logged.String()
	if got, want := strings.Count(text, "level=WARN"), warnings; got != want {
		t.Errorf("%d warnings, want %d, in %q", got, want, text)
	}
	if got, want := strings.Count(text, "level=INFO"), infos; got != want {
		t.Errorf("%d infos, want %d, in %q", got, want, text)
	}
	logged.Reset()
}

// TestPolicies: each policy that may evict any key is refused, or allowed with one warning.
func TestPolicies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb"})
	client := server.Client(t)
	for _, policy := range []string{
		"noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
		"allkeys-lru", "allkeys-lfu", "allkeys-random",
	} {
		set(t, client, "CONFIG", "SET", "maxmemory-policy", policy)
		evicts := strings.HasPrefix(policy, "allkeys-")
		strict, strictLog := watch(client, false)
		lax, laxLog := watch(client, true)
		err := strict.Check(t.Context())
		if got, want := errors.Is(err, millrace.ErrEvictable), evicts; got != want {
			t.Errorf("%s is refused: %v, want %v", policy, got, want)
		}
		if evicts && (!strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "a thing") || millrace.Hint(err) != millrace.ErrEvictable.Hint) {
			t.Errorf("%s: error %q with the hint %q does not say what it should", policy, err, millrace.Hint(err))
		}
		warnings := 0
		if evicts {
			warnings = 1
		}
		for range 2 {
			if err := lax.Check(t.Context()); err != nil {
				t.Errorf("%s is refused where it is allowed: %v", policy, err)
			}
		}
		wantLog(t, strictLog, 0, 0) // the caller has the error
		wantLog(t, laxLog, warnings, 0)
	}
	set(t, client, "CONFIG", "SET", "maxmemory", "0")
	unlimited, _ := watch(client, false)
	if err := unlimited.Check(t.Context()); err != nil {
		t.Errorf("a server without a limit is refused: %v", err)
	}
}

// TestRights: a client without permission for CONFIG learns the policy all the same, and
// one without permission for INFO is warned once and served.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"})
	for user, denied := range map[string]string{"noconfig": "-config", "noinfo": "-info"} {
		set(t, server.Client(t), "ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", denied)
	}
	as := func(user string) rueidis.Client {
		return server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = user, "pw" })
	}
	w, _ := watch(as("noconfig"), false)
	if err := w.Check(t.Context()); !errors.Is(err, millrace.ErrEvictable) {
		t.Errorf("Check without CONFIG = %v, want the refusal", err)
	}
	w, logged := watch(as("noinfo"), false)
	for range 2 {
		if err := refreshed(t, w); err != nil {
			t.Errorf("Check without INFO = %v", err)
		}
	}
	wantLog(t, logged, 1, 0)
}

// TestChanges: the policy may change while a program runs, and each change is
// told once.
func TestChanges(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "volatile-lru"}).Client(t)
	w, logged := watch(client, false)
	lax, laxLogged := watch(client, true)
	for i, step := range []struct {
		policy          string
		changed, refuse bool
		warnings, infos int
	}{
		{"volatile-lru", false, false, 0, 0},
		{"allkeys-lru", true, true, 1, 0},
		{"allkeys-random", false, true, 0, 0},
		{"volatile-ttl", true, false, 0, 1},
		{"noeviction", false, false, 0, 0},
		{"allkeys-lfu", true, true, 1, 0},
	} {
		set(t, client, "CONFIG", "SET", "maxmemory-policy", step.policy)
		before := w.Check(t.Context())
		if i > 0 && step.changed && errors.Is(before, millrace.ErrEvictable) == step.refuse {
			t.Errorf("%s: a fresh verdict was not kept", step.policy)
		}
		if err := refreshed(t, w); errors.Is(err, millrace.ErrEvictable) != step.refuse {
			t.Errorf("%s: Check = %v, want it refused: %v", step.policy, err, step.refuse)
		}
		for _, want := range []bool{step.changed, false} {
			if got := w.Changed(t.Context(), time.Hour); got != want {
				t.Errorf("%s: Changed = %v, want %v", step.policy, got, want)
			}
		}
		wantLog(t, logged, step.warnings, step.infos)
		if err := refreshed(t, lax); err != nil {
			t.Errorf("%s: a Check that allows = %v", step.policy, err)
		}
		wantLog(t, laxLogged, step.warnings, step.infos)
	}
}

// TestChangedRefreshes: a verdict older than Changed accepts is refreshed, and the next call
// reports the change.
func TestChangedRefreshes(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "volatile-lru"}).Client(t)
	w, _ := watch(client, false)
	redistest.Eventually(t, "there is a verdict", func() bool {
		return !w.Changed(t.Context(), time.Hour) && w.seen.Load() != nil
	})
	set(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	redistest.Eventually(t, "the change is seen", func() bool { return w.Changed(t.Context(), time.Millisecond) })
	if err := w.Check(t.Context()); !errors.Is(err, millrace.ErrEvictable) {
		t.Errorf("Check = %v, want the refusal", err)
	}
}

// TestVerdictGetsOld: a call with an old verdict uses it and refreshes it in the background.
// After twice the time without calls, it waits for the refresh.
func TestVerdictGetsOld(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "volatile-lru"}).Client(t)
	w, _ := watch(client, false)
	wantRefused(t, "at first", w, false)
	set(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
	w.age(standard.fresh + time.Second)
	wantRefused(t, "with an old verdict", w, false)
	redistest.Eventually(t, "the change is seen", func() bool { return errors.Is(w.Check(t.Context()), millrace.ErrEvictable) })
	set(t, client, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
	w.age(2 * standard.fresh)
	wantRefused(t, "with a verdict that is too old", w, false)
}

// TestFirstCallsShare: calls that want the first verdict at the same time share one
// refresh.
func TestFirstCallsShare(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	w, _ := watch(client, false)
	set(t, client, "CONFIG", "RESETSTAT")
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			if err := w.Check(t.Context()); err != nil {
				t.Errorf("Check = %v", err)
			}
		})
	}
	running.Wait()
	if got := server.Info("commandstats")["cmdstat_info"]; !strings.HasPrefix(got, "calls=1,") {
		t.Errorf("INFO was asked for: %s, want one call", got)
	}
}

// TestVolatile: where keys with a TTL are at stake, too, nothing may be evicted.
func TestVolatile(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb"}).Client(t)
	for policy, evicts := range map[string]bool{"noeviction": false, "volatile-lru": true, "volatile-ttl": true, "allkeys-lru": true} {
		set(t, client, "CONFIG", "SET", "maxmemory-policy", policy)
		w := New(client, Config{One: "a thing", Many: "things", Volatile: true, Logger: slog.New(slog.DiscardHandler)})
		if err := w.Check(t.Context()); errors.Is(err, millrace.ErrEvictable) != evicts {
			t.Errorf("%s: Check = %v, want it refused: %v", policy, err, evicts)
		}
	}
}
