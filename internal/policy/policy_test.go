package policy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

var errRefused = &millrace.Error{Code: "refused", Message: "things are evicted", Hint: "Do otherwise."}

// watch returns a watch and what it logs.
func watch(client rueidis.Client, allow bool) (*Watch, *bytes.Buffer) {
	logged := &bytes.Buffer{}
	return New(client, Config{
		Refusal: errRefused, One: "a thing", Many: "things", Allow: allow,
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
	}), logged
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
		if got, want := errors.Is(err, errRefused), evicts; got != want {
			t.Errorf("%s is refused: %v, want %v", policy, got, want)
		}
		if evicts && (!strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "a thing") || millrace.Hint(err) != errRefused.Hint) {
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

// TestRights: a user who may not use CONFIG learns the policy all the same, and
// one who may not use INFO is warned once and served.
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
	if err := w.Check(t.Context()); !errors.Is(err, errRefused) {
		t.Errorf("Check without CONFIG = %v, want the refusal", err)
	}
	w, logged := watch(as("noinfo"), false)
	for range 2 {
		if _, err := w.Look(t.Context(), 0); err != nil {
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
		changed, err := w.Look(t.Context(), 0)
		if changed != step.changed || errors.Is(err, errRefused) != step.refuse {
			t.Errorf("%s: Look = %v, %v, want changed: %v, refused: %v", step.policy, changed, err, step.changed, step.refuse)
		}
		if i > 0 && step.changed && errors.Is(before, errRefused) == step.refuse {
			t.Errorf("%s: a fresh verdict was not kept", step.policy)
		}
		if after := w.Check(t.Context()); errors.Is(after, errRefused) != step.refuse {
			t.Errorf("%s: Check after Look = %v", step.policy, after)
		}
		wantLog(t, logged, step.warnings, step.infos)
		if _, err := lax.Look(t.Context(), 0); err != nil {
			t.Errorf("%s: a Look that allows = %v", step.policy, err)
		}
		wantLog(t, laxLogged, step.warnings, step.infos)
	}
}

// TestVerdictGetsOld: Check asks again after a minute.
func TestVerdictGetsOld(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "volatile-lru"}).Client(t)
	w, _ := watch(client, false)
	if err := w.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, client, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	w.last.Store(&verdict{at: time.Now().Add(-fresh)})
	if err := w.Check(t.Context()); !errors.Is(err, errRefused) {
		t.Errorf("Check = %v, want the refusal", err)
	}
}

// TestOneAsks: those who want a verdict at the same time share one look.
func TestOneAsks(t *testing.T) {
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

// TestServerIsGone: no verdict comes of it, and the next one asks again.
func TestServerIsGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"})
	w, logged := watch(server.Client(t), false)
	server.Kill()
	if err := w.Check(t.Context()); err != nil {
		t.Errorf("Check without a server = %v, want nil", err)
	}
	wantLog(t, logged, 0, 0)
	server.Restart()
	redistest.Eventually(t, "the server is asked again", func() bool {
		return errors.Is(w.Check(t.Context()), errRefused)
	})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Look(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Look at a server that does not answer = %v, want the context's end", err)
	}
}
