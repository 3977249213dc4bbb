package pinned

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestKeyRepliesAreLost loses the reply of each call after the server did the
// work. The library asks again, and the answer is the one that was lost.
func TestKeyRepliesAreLost(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	k := openOn(t, proxy.Client(t), redistest.Name(t), Config{Shards: 1})
	scripttest.Load(t, k.space.Run.Client, kind.Library)
	ctx, claim := t.Context(), ""
	for i, step := range []struct {
		what string
		call func() (any, error)
		want any
	}{
		{"the first call", func() (any, error) { return k.space.Count(ctx, true) }, 1},
		{"Set", func() (any, error) { return k.Set(ctx, "a", []byte("x"), keyLong, SetConfig{}) }, true},
		{"Set if none", func() (any, error) {
			return k.Set(ctx, "b", []byte("x"), keyLong, SetConfig{IfNone: true})
		}, true},
		{"Set if none, of what is there", func() (any, error) {
			return k.Set(ctx, "b", []byte("y"), keyLong, SetConfig{IfNone: true})
		}, false},
		{"Set if it exists", func() (any, error) {
			return k.Set(ctx, "b", []byte("z"), keyLong, SetConfig{IfExist: true})
		}, true},
		{"Get", func() (any, error) { value, _, err := k.Get(ctx, "b"); return string(value), err }, "z"},
		{"Claim", func() (any, error) { c, _, _, err := k.Claim(ctx, "c", keyLong); claim = c; return c != "", err }, true},
		{"Set with the claim", func() (any, error) {
			return k.Set(ctx, "c", []byte("x"), time.Millisecond, SetConfig{Claim: claim})
		}, true},
		{"GetMany", func() (any, error) { many, err := k.GetMany(ctx, "a", "b"); return len(many), err }, 2},
		{"TTL", func() (any, error) { ttl, err := ttlOf(ctx, k, "a"); return ttl > 0, err }, true},
		{"Expire", func() (any, error) { return k.Expire(ctx, "b", time.Millisecond) }, true},
		{"reap", func() (any, error) { _, err := k.Jobs()[0].Slice(ctx); return nil, err }, nil},
		{"Delete", func() (any, error) { return k.Remove(ctx, "a", "none") }, 1},
		{"Len", func() (any, error) { return lenOf(t, k) }, 0},
	} {
		command := "EVALSHA"
		switch step.what {
		case "Get", "TTL":
			command = "HGET"
		case "GetMany":
			command = "HMGET"
		}
		fault := proxy.DropReply(redistest.Named(command))
		got, err := step.call()
		wantKey(t, step.what, got, step.want, err)
		if fault.Count() != 1 || proxy.Dropped() != i+1 {
			t.Fatalf("%s: %d replies lost, want %d", step.what, proxy.Dropped(), i+1)
		}
	}
	if s := keyStats(t, k); s.Set != 4 || s.Deleted != 1 || s.Reaped != 2 {
		t.Errorf("counters = %+v, want 4 set, 1 deleted, 2 reaped", s)
	}
}

// TestKeyScriptsAreFlushed: a server that forgot the scripts is given them again.
func TestKeyScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openOn(t, client, "n", Config{})
	for i := range 3 {
		name := fmt.Sprint(i)
		for _, call := range []func() error{
			func() error { setKey(t, k, name, "x", keyLong); return nil },
			func() error { _, _, err := k.Get(t.Context(), name); return err },
			func() error { _, err := ttlOf(t.Context(), k, name); return err },
			func() error { _, err := k.Expire(t.Context(), name, keyLong); return err },
			func() error { _, err := k.Jobs()[0].Slice(t.Context()); return err },
			func() error { _, err := lenOf(t, k); return err },
			func() error { _, err := Jobs(client)[0].Slice(t.Context()); return err },
			func() error { _, err := k.Remove(t.Context(), name); return err },
		} {
			keyRaw(t, client, "SCRIPT", "FLUSH")
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCancelledKeyCallsReturn pauses the server, so that only the context can end
// a call. The best of several tries must return within 50 ms of the cancel: a
// busy machine may delay some, but not all.
func TestCancelledKeyCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "n", Config{})
	setKey(t, k, "a", "x", keyLong)
	server.Pause()
	defer server.Resume()
	for name, call := range map[string]func(context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := Open(ctx, k.space.Run.Client, "m", Config{})
			return err
		},
		"Set":     func(ctx context.Context) error { _, err := k.Set(ctx, "a", nil, keyLong, SetConfig{}); return err },
		"Get":     func(ctx context.Context) error { _, _, err := k.Get(ctx, "a"); return err },
		"GetMany": func(ctx context.Context) error { _, err := k.GetMany(ctx, "a", "b"); return err },
		"TTL":     func(ctx context.Context) error { _, err := ttlOf(ctx, k, "a"); return err },
		"Expire":  func(ctx context.Context) error { _, err := k.Expire(ctx, "a", keyLong); return err },
		"Delete":  func(ctx context.Context) error { _, err := k.Remove(ctx, "a"); return err },
		"Stats":   func(ctx context.Context) error { _, err := k.Stats(ctx); return err },
		"reap":    func(ctx context.Context) error { _, err := k.Jobs()[0].Slice(ctx); return err },
		"repair": func(ctx context.Context) error {
			_, err := Jobs(k.space.Run.Client)[0].Slice(ctx)
			return err
		},
	} {
		best := time.Hour
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var cancelled time.Time
			time.AfterFunc(5*time.Millisecond, func() {
				cancelled = time.Now()
				cancel()
			})
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", name, err)
			}
			best = min(best, time.Since(cancelled))
			cancel()
		}
		if best > 50*time.Millisecond {
			t.Errorf("%s returns %v after the cancel, more than 50 ms", name, best)
		}
	}
}

// TestKeysWhileReaped writes, prolongs and reads while reapers and repairers are
// at the same values: none goes before its time.
func TestKeysWhileReaped(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Shards: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var upkeep, writers sync.WaitGroup
	for _, job := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := k.Jobs()[0].Slice(ctx); return err },
		func(ctx context.Context) error { _, err := k.Jobs()[0].Slice(ctx); return err },
		func(ctx context.Context) error { _, err := Jobs(k.space.Run.Client)[0].Slice(ctx); return err },
	} {
		upkeep.Go(func() {
			for ctx.Err() == nil {
				if err := job(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("upkeep: %v", err)
				}
			}
		})
	}
	for w := range 8 {
		writers.Go(func() {
			name := fmt.Sprint("writer ", w)
			for i := range 100 {
				// The first value's time may have come when the second one is stored, since
				// other writers and the upkeep are in between.
				value := strings.Repeat("x", i)
				_, err := k.Set(t.Context(), name, []byte("brief"), time.Millisecond, SetConfig{})
				if _, err2 := k.Set(t.Context(), name, []byte(value), keyLong, SetConfig{}); err != nil || err2 != nil {
					t.Errorf("Set of %s: %v, %v", name, err, err2)
				}
				if i%3 == 0 {
					if ok, err := k.Expire(t.Context(), name, 2*keyLong); !ok || err != nil {
						t.Errorf("Expire of %s, which lives an hour = %v, %v", name, ok, err)
					}
				}
				if got, _, err := k.Get(t.Context(), name); err != nil || string(got) != value {
					t.Errorf("Get of %s, which lives an hour = %q, %v, want %q", name, got, err, value)
				}
			}
		})
	}
	writers.Wait()
	cancel()
	upkeep.Wait()
	n, err := lenOf(t, k)
	wantKey(t, "Len", n, 8, err)
}
