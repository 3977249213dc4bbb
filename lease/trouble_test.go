package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

func evalsha(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") }

// TestLostReplies loses the reply of each call after the server did the work. The
// library asks again, and the answer is the one that was lost.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	l := openOn(t, proxy.Client(t), Config{})
	scripttest.Load(t, l.run.Client, l.run.Scripts)
	name := redistest.Name(t)
	lost := 0
	losing := func(what string, call func() error) {
		t.Helper()
		fault := proxy.DropReply(evalsha)
		if err := call(); err != nil {
			t.Fatalf("%s = %v", what, err)
		}
		if lost++; fault.Count() != 1 || proxy.Dropped() != lost {
			t.Fatalf("%s: %d replies lost, want %d", what, proxy.Dropped(), lost)
		}
	}
	var lease *Lease
	losing("Acquire", func() (err error) {
		lease, err = l.Acquire(t.Context(), name, long, AcquireConfig{})
		return err
	})
	if info, err := l.Show(t.Context(), name); err != nil || info.Token != lease.Token || info.Fence != lease.Fence {
		t.Errorf("Show = %+v, %v, want the lease that was adopted", info, err)
	}
	losing("Refresh", func() error { return lease.Refresh(t.Context(), 2*long) })
	losing("Show", func() error { _, err := l.Show(t.Context(), name); return err })
	losing("Release", func() error { return lease.Release(t.Context()) })

	acquire(t, l, name, long)
	abandon(t, l, name)
	losing("reap", func() error {
		reply, err := l.run.Run(t.Context(), "reap", baseKey(name))
		if err == nil && reply.Bool() {
			t.Error("reap says that it removed a lease, want the second run to find nothing")
		}
		return err
	})
	if exists(t, l, name) {
		t.Error("an abandoned lease stays")
	}
}

// TestLostReplyOfARelease: another holder came before the release was repeated.
func TestLostReplyOfARelease(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	first := acquire(t, l, name, long)
	for range 2 {
		if err := l.Release(t.Context(), name, first.Token); err != nil {
			t.Errorf("Release = %v", err)
		}
		acquireWith(t, l, name, long, AcquireConfig{Token: "other"})
	}
	if info, err := l.Show(t.Context(), name); err != nil || info.Token != "other" {
		t.Errorf("Show = %+v, %v, want the other holder untouched", info, err)
	}
}

// TestUnknownOutcomeIsGivenBack: the token of an acquire is lost when its
// caller has gone.
func TestUnknownOutcomeIsGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	l := openOn(t, proxy.Client(t), Config{})
	scripttest.Load(t, l.run.Client, l.run.Scripts)
	name := redistest.Name(t)
	if err := l.policy.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	proxy.DropReply(func(cmd []string) bool {
		if evalsha(cmd) {
			cancel()
		}
		return evalsha(cmd)
	})
	_, err := l.Acquire(ctx, name, long, AcquireConfig{})
	wantError(t, err, context.Canceled)
	other := open(t, Config{})
	redistest.Eventually(t, "the lease was acquired and given back", func() bool {
		info, err := other.Show(t.Context(), name)
		return err == nil && info.Fence > 0 && !info.Held
	})
}

// TestDeadlineCountsFromTheRequest: a slow answer makes no lease longer.
func TestDeadlineCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	l := openOn(t, proxy.Client(t), Config{})
	scripttest.Load(t, l.run.Client, l.run.Scripts)
	name := redistest.Name(t)
	const ttl, delay = 10 * time.Second, 300 * time.Millisecond
	if err := l.policy.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(delay)
	asked := time.Now()
	lease := acquire(t, l, name, ttl)
	if late := lease.Deadline().Sub(asked.Add(ttl)); late > 0 || time.Since(asked) < delay {
		t.Errorf("Deadline = %v after what the server granted", late)
	}
	asked = time.Now()
	if err := lease.Refresh(t.Context(), 2*ttl); err != nil {
		t.Fatal(err)
	}
	if late := lease.Deadline().Sub(asked.Add(2 * ttl)); late > 0 {
		t.Errorf("Deadline after Refresh = %v after what the server granted", late)
	}
	_, err := l.Acquire(t.Context(), name+"-brief", short, AcquireConfig{})
	wantError(t, err, ErrExpired)
}

// TestWatchdogOutlivesTrouble cuts connections and restarts the server while a
// lease is renewed.
func TestWatchdogOutlivesTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	proxy := redistest.NewProxy(t, server.Addr())
	l := openOn(t, proxy.Client(t), Config{})
	lease := acquireWith(t, l, "x", 3*time.Second, AcquireConfig{MaxHold: long})
	for _, trouble := range []func(){
		proxy.Cut,
		func() { server.Kill(); server.Restart() },
	} {
		trouble()
		before := lease.Deadline()
		redistest.Eventually(t, "the lease is renewed", func() bool { return lease.Deadline().After(before) })
	}
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the lease ended: %v", context.Cause(lease.Context()))
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestServerDoesNotAnswer: the local deadline needs no server.
func TestServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	lease := acquireWith(t, l, "x", 300*time.Millisecond, AcquireConfig{MaxHold: long})
	server.Pause()
	defer server.Resume()
	wantEnd(t, lease, ErrExpired)
	lease.renews.Wait()
}

// TestFullServer: calls that free memory work; refused ones change nothing.
func TestFullServer(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	client := l.run.Client
	full := func(limit string) { must(t, client, "CONFIG", "SET", "maxmemory", limit) }
	lease := acquire(t, l, "x", long)
	acquire(t, l, "left", long)
	abandon(t, l, "left")
	due(t, l, "x")
	full("1")
	_, err := l.Acquire(t.Context(), "y", long, AcquireConfig{})
	wantError(t, err, millrace.ErrFull)
	_, err = l.Acquire(t.Context(), "left", long, AcquireConfig{})
	wantError(t, err, millrace.ErrFull)
	if exists(t, l, "y") {
		t.Error("a refused acquire left a key")
	}
	if err := lease.Refresh(t.Context(), 2*long); err != nil {
		t.Errorf("Refresh = %v", err)
	}
	if info, err := l.Show(t.Context(), "x"); err != nil || !info.Held || info.Remaining <= long {
		t.Errorf("Show = %+v, %v, want it refreshed", info, err)
	}
	if progress := reapRound(t, l.reapJob()); progress != millrace.Worked || exists(t, l, "left") {
		t.Errorf("reap = %v, want the abandoned one gone", progress)
	}
	if _, ok := score(t, l, "left"); ok {
		t.Error("what is reaped on a full server stays in the index")
	}
	if left, ok := score(t, l, "x"); !ok || left < long {
		t.Errorf("what is held on a full server is looked at in %v (%v), want after its deadline", left, ok)
	}
	if _, err := l.Acquire(t.Context(), "x", long, AcquireConfig{Wait: time.Millisecond}); !errors.Is(err, ErrHeld) {
		t.Errorf("Acquire of one who waits = %v, want ErrHeld", err)
	}
	wait(t, l, "x", "another")
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	if n := integer(t, client, "LLEN", "mr:wake:{56}:another"); n != 1 {
		t.Errorf("names in the list of a process that waits = %d, want 1", n)
	}
	full("0")
	acquire(t, l, "x", long)
}

// TestOutageLongerThanTheLease: a caller that waits through an outage gets a lease that
// lasts its time, counted from the try that was answered and not from the first.
func TestOutageLongerThanTheLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	l := openOn(t, server.Client(t), Config{})
	acquire(t, l, "x", long)
	const ttl = 300 * time.Millisecond
	server.Kill()
	timer := time.AfterFunc(2*ttl, server.Restart)
	defer timer.Stop()
	lease, err := l.Acquire(t.Context(), "y", ttl, AcquireConfig{Wait: -1})
	if err != nil {
		t.Fatalf("Acquire through an outage = %v, want a lease", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestEviction holds 1,000 leases while cache entries fill the memory, under
// every policy.
func TestEviction(t *testing.T) {
	t.Parallel()
	const fill = "for i = 1, ARGV[1] do redis.call('SET', 'cache:' .. ARGV[2] .. ':' .. i, string.rep('x', 200), 'PX', 3600000) end"
	for _, policy := range []string{
		"noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
		"allkeys-lru", "allkeys-lfu", "allkeys-random",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: policy})
			client := server.Client(t)
			l := openOn(t, client, Config{})
			if strings.HasPrefix(policy, "allkeys-") {
				_, err := l.Acquire(t.Context(), "x", long, AcquireConfig{})
				wantError(t, err, millrace.ErrEvictable)
				if exists(t, l, "x") {
					t.Error("a refused acquire left a key")
				}
				var logged bytes.Buffer
				l = openOn(t, client, Config{AllowEvictable: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				acquire(t, l, "x", long)
				acquire(t, l, "y", long)
				if got := strings.Count(logged.String(), "level=WARN"); got != 1 || !strings.Contains(logged.String(), policy) {
					t.Errorf("log = %q, want one warning", logged.String())
				}
				return
			}
			const leases = 1000
			for i := range leases {
				acquire(t, l, strconv.Itoa(i), long)
			}
			refused := 0
			for i := range 200 { // twice what fits, and more
				if err := do(t, client, "EVAL", fill, "0", "500", strconv.Itoa(i)).Error(); err != nil && !rueidis.IsRedisNil(err) {
					refused++
				}
			}
			evicted := server.Info("stats")["evicted_keys"]
			if (policy == "noeviction") != (refused > 0) || (policy != "noeviction") != (evicted != "0") {
				t.Errorf("%d writes refused, %s keys evicted: the memory was never full", refused, evicted)
			}
			kept := 0
			for i := range leases {
				if info, err := l.Show(t.Context(), strconv.Itoa(i)); err == nil && info.Held {
					kept++
				}
			}
			if kept != leases {
				t.Errorf("kept %d leases of %d", kept, leases)
			}
		})
	}
}

// TestCancelledCallsReturn pauses the server, so that only the context can end a
// call. The best of several tries must return within 50 ms of the cancel: a
// busy machine may delay some, but not all.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	lease := acquire(t, l, "x", long)
	fresh := openOn(t, l.run.Client, Config{})
	server.Pause()
	defer server.Resume()
	for name, call := range map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := l.Acquire(ctx, "x", long, AcquireConfig{Token: "t"})
			return err
		},
		"first Acquire": func(ctx context.Context) error { _, err := fresh.Acquire(ctx, "x", long, AcquireConfig{}); return err },
		"Refresh":       func(ctx context.Context) error { return lease.Refresh(ctx, long) },
		"Show":          func(ctx context.Context) error { _, err := l.Show(ctx, "x"); return err },
		"reap":          func(ctx context.Context) error { _, err := l.reapJob().Slice(ctx); return err },
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if err := lease.Release(ctx); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("Release = %v after %v, want it to give up after a second", err, time.Since(began))
	}
}

// TestForeignKeys: a key that is no lease of this version is refused and left alone.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	for i, c := range []struct {
		command []string
		want    error
	}{
		{[]string{"SET", "", "text"}, millrace.ErrBroken},
		{[]string{"SET", "", "3 text"}, millrace.ErrBroken},
		{[]string{"HSET", "", "color", "red"}, millrace.ErrBroken},
		{[]string{"HSET", "", "version", "1"}, millrace.ErrVersion},
		{[]string{"SET", "", "4 4 5"}, millrace.ErrVersion},
		{[]string{"SET", "", "4 1795709159481836 1795709159481 1795709159481 01 0000 00 t"}, millrace.ErrVersion}, // a lease but for the version
	} {
		name := fmt.Sprint(redistest.Name(t), i)
		c.command[1] = baseKey(name)
		must(t, l.run.Client, c.command...)
		before, err := do(t, l.run.Client, "DUMP", baseKey(name)).ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Acquire(t.Context(), name, long, AcquireConfig{})
		wantError(t, err, c.want)
		_, err = l.Refresh(t.Context(), name, "t", long)
		wantError(t, err, c.want)
		wantError(t, l.Release(t.Context(), name, "t"), c.want)
		_, err = l.Show(t.Context(), name)
		wantError(t, err, c.want)
		if after, err := do(t, l.run.Client, "DUMP", baseKey(name)).ToString(); err != nil || after != before {
			t.Errorf("%v was changed: %v", c.command, err)
		}
	}
}
