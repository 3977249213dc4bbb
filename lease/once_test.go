package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/schedule/cron"
)

func succeed(context.Context, int64) error { return nil }

// never is a period whose end a test does not see.
func never(now time.Time) time.Time { return now.Add(24 * time.Hour) }

func wantOnce(t *testing.T, l *Locker, name string, wantRan bool) {
	t.Helper()
	if ran, err := l.Once(t.Context(), name, long, never, succeed); ran != wantRan || err != nil {
		t.Errorf("Once = %v, %v, want %v", ran, err, wantRan)
	}
}

// TestOnceOfManyReplicas has three replicas call at the same time, again and again.
func TestOnceOfManyReplicas(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	var mu sync.Mutex
	failures, successes, running := 0, 0, 0
	var replicas sync.WaitGroup
	for range 3 {
		l := open(t, Config{})
		replicas.Go(func() {
			for done := false; !done; {
				ran, err := l.Once(t.Context(), name, long, never, func(context.Context, int64) error {
					mu.Lock()
					defer mu.Unlock()
					if running++; running > 1 {
						t.Error("two run at once")
					}
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					running--
					if failures < 2 {
						failures++
						return errors.New("failed")
					}
					successes++
					return nil
				})
				done = err == nil
				if !done && !ran && !errors.Is(err, ErrHeld) {
					t.Errorf("Once = %v", err)
					return
				}
			}
		})
	}
	replicas.Wait()
	if successes != 1 {
		t.Errorf("%d successes, want 1", successes)
	}
	wantOnce(t, open(t, Config{}), name, false)
}

// TestOnceRunsAgain: a function that failed, panicked or lost its lease runs again in its period.
func TestOnceRunsAgain(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	odd := errors.New("odd")
	for name, first := range map[string]func(t *testing.T, name string){
		"after a failure": func(t *testing.T, name string) {
			ran, err := l.Once(t.Context(), name, long, never, func(context.Context, int64) error { return odd })
			if !ran {
				t.Error("it has not run")
			}
			wantError(t, err, odd)
		},
		"after a panic": func(t *testing.T, name string) {
			defer func() {
				if got := recover(); got != "panic" {
					t.Errorf("recovered %v, want the panic of the function", got)
				}
			}()
			_, _ = l.Once(t.Context(), name, long, never, func(context.Context, int64) error { panic("panic") })
		},
		"when the lease was lost": func(t *testing.T, name string) {
			ran, err := l.Once(t.Context(), name, long, never, func(context.Context, int64) error {
				pass(t, l, name)
				return nil
			})
			if !ran {
				t.Error("it has not run")
			}
			wantError(t, err, ErrLost)
		},
		"in the next period": func(t *testing.T, name string) {
			wantOnce(t, l, name, true)
			wantOnce(t, l, name, false)
			pass(t, l, name)
		},
		"when the record is released": func(t *testing.T, name string) {
			wantOnce(t, l, name, true)
			info, err := l.Show(t.Context(), name)
			if err != nil || !strings.HasPrefix(info.Metadata, donePrefix) || info.Remaining < 23*time.Hour {
				t.Errorf("Show = %+v, %v, want a record", info, err)
			}
			if err := l.Release(t.Context(), name, info.Token); err != nil {
				t.Error(err)
			}
		},
		"when the period ended meanwhile": func(t *testing.T, name string) {
			var end time.Time
			ran, err := l.Once(t.Context(), name, long, func(now time.Time) time.Time {
				end = now.Add(short)
				return end
			}, func(ctx context.Context, _ int64) error {
				redistest.Eventually(t, "the period is over", func() bool { return serverTime(t, l).After(end) })
				return ctx.Err()
			})
			if !ran || err != nil {
				t.Errorf("Once = %v, %v", ran, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			first(t, name)
			wantOnce(t, l, name, true)
			wantOnce(t, l, name, false)
		})
	}
}

// refreshes is a hook that receives each successful refresh.
type refreshes chan struct{}

func (r refreshes) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	return ctx, func(err error) {
		if call.Script == "lease.refresh" && err == nil {
			select {
			case r <- struct{}{}:
			default:
			}
		}
	}
}

// TestOnceHoldsForItsPeriod: the cap of Do, an hour by default, does not end work that has a longer
// period. One that the program sets does.
func TestOnceHoldsForItsPeriod(t *testing.T) {
	t.Parallel()
	const ttl, most = 3 * time.Second, 50 * time.Millisecond // the first refresh is after a second
	for name, tt := range map[string]struct {
		cfg  Config
		want error
	}{
		"default":         {Config{}, nil},
		"set by programs": {Config{MaxHold: most}, ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refreshed := make(refreshes)
			tt.cfg.Hooks = []millrace.Hook{refreshed}
			l := open(t, tt.cfg)
			l.hold = most
			work := func(ctx context.Context, _ int64) error {
				select {
				case <-refreshed:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			ran, err := l.Once(t.Context(), redistest.Name(t), ttl, never, work)
			if !ran || !errors.Is(err, tt.want) {
				t.Errorf("Once = %v, %v, want %v", ran, err, tt.want)
			}
			if _, err := l.Do(t.Context(), redistest.Name(t), ttl, AcquireConfig{}, work); !errors.Is(err, ErrExpired) {
				t.Errorf("Do = %v, want ErrExpired at its cap", err)
			}
		})
	}
	midnight := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	l := open(t, Config{})
	for _, tt := range []struct {
		period periods
		began  time.Time
		want   time.Duration
	}{
		{Every(24 * time.Hour), midnight.Add(-10 * time.Minute), 24*time.Hour + 10*time.Minute},
		{Every(24 * time.Hour), midnight, 48 * time.Hour},
		{Every(time.Minute), midnight, time.Hour},
		{func(now time.Time) time.Time { // one end only
			if now.Before(midnight) {
				return midnight
			}
			return now
		}, midnight.Add(-2 * time.Hour), 2 * time.Hour},
	} {
		end, err := tt.period.end(tt.began)
		if got := l.holdOnce(tt.period, tt.began, end); got != tt.want || err != nil {
			t.Errorf("work that began at %s is held for %s, %v, want %s", tt.began, got, err, tt.want)
		}
	}
}

func serverTime(t *testing.T, l *Locker) time.Time {
	t.Helper()
	clock, err := do(t, l.run.Client, "TIME").AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(clock[0], clock[1]*1000)
}

// TestOnceCountsByTheServersClock has a server whose clock is years ahead of the callers'.
func TestOnceCountsByTheServersClock(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	l := openOn(t, client, Config{})
	run := func(at string, want bool) {
		t.Helper()
		now, err := time.Parse(time.DateTime, at)
		if err != nil {
			t.Fatal(err)
		}
		server.SetTime(now)
		if ran, err := l.Once(t.Context(), "report", long, daily(t, "0 3", "UTC"), succeed); ran != want || err != nil {
			t.Errorf("Once at %s = %v, %v, want %v", at, ran, err, want)
		}
	}
	run("2040-01-01 02:59:58", true)
	run("2040-01-01 02:59:59", false)
	run("2040-01-01 03:00:00", true)
	run("2040-01-02 02:59:59", false)
	run("2040-01-02 03:00:00", true)
	run("2040-01-05 00:00:00", true)
}

// TestOnceLosesReplies: each call is repeated after a lost reply, and takes effect once.
func TestOnceLosesReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	l := openOn(t, proxy.Client(t), Config{})
	scripttest.Load(t, l.run.Client, l.run.Scripts)
	name := redistest.Name(t)
	acquired := proxy.DropReply(evalsha)
	var done *redistest.Fault
	ran, err := l.Once(t.Context(), name, long, never, func(context.Context, int64) error {
		done = proxy.DropReply(evalsha)
		return nil
	})
	if !ran || err != nil || acquired.Count() != 1 || done.Count() != 1 {
		t.Errorf("Once = %v, %v with %d and %d lost replies, want 1 of acquire and done", ran, err, acquired.Count(), done.Count())
	}
	wantOnce(t, l, name, false)
}

// TestOnceDuringARestart: a success is stored when the server comes back within the lease, even
// if the caller was cancelled meanwhile.
func TestOnceDuringARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	l := openOn(t, server.Client(t), Config{})
	ran, err := l.Once(t.Context(), "report", long, never, func(context.Context, int64) error {
		server.Kill()
		timer := time.AfterFunc(short, server.Restart)
		t.Cleanup(func() { timer.Stop() })
		return nil
	})
	if !ran || err != nil {
		t.Errorf("Once = %v, %v", ran, err)
	}
	wantOnce(t, l, "report", false)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran, err = l.Once(ctx, "cancelled", long, never, func(context.Context, int64) error {
		cancel()
		return nil
	})
	if !ran || err != nil {
		t.Errorf("Once of a cancelled caller that succeeded = %v, %v", ran, err)
	}
	wantOnce(t, l, "cancelled", false)

	// Without an answer it gives up a second after the caller did, and says that it ran.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ran, err = l.Once(ctx, "silent", long, never, func(context.Context, int64) error {
		server.Pause()
		cancel()
		return nil
	})
	server.Resume()
	if !ran || err == nil || errors.Is(err, ErrLost) {
		t.Errorf("Once without an answer = %v, %v, want an error that says that it ran", ran, err)
	}
}

func TestOnceRefuses(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	for what, period := range map[string]periods{
		"none":    nil,
		"zero":    Every(0),
		"ended":   func(now time.Time) time.Time { return now },
		"no end":  func(time.Time) time.Time { return time.Time{} },
		"endless": func(now time.Time) time.Time { return now.AddDate(2, 0, 0) },
	} {
		ran, err := l.Once(t.Context(), name, long, period, succeed)
		if ran || !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("Once with a period that is %s = %v, %v, want ErrBadArgument", what, ran, err)
		}
	}
	if exists(t, l, name) {
		t.Error("a refused call left a key")
	}
	calls := 0
	_, err := l.Once(t.Context(), name, long, func(now time.Time) time.Time { // good by the caller's clock only
		calls++
		return now.Add(time.Duration(2-calls) * time.Hour)
	}, succeed)
	wantError(t, err, millrace.ErrBadArgument)
	wantOnce(t, l, name, true)
	_, err = l.Once(t.Context(), "a{b}", long, never, succeed)
	wantError(t, err, millrace.ErrBadName)
	_, err = l.Once(t.Context(), name, time.Millisecond, never, succeed)
	wantError(t, err, millrace.ErrBadArgument)
}

// TestRecordsAreReaped: upkeep removes a record a minute after its period.
func TestRecordsAreReaped(t *testing.T) {
	t.Parallel()
	l := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
	name := redistest.Name(t)
	wantOnce(t, l, name, true)
	due(t, l, name)
	reapRound(t, l.reapJob())
	if left, ok := score(t, l, name); !exists(t, l, name) || !ok || left < 23*time.Hour {
		t.Errorf("a record that holds is visited again in %v (%v), want after its period", left, ok)
	}
	abandon(t, l, name)
	reapRound(t, l.reapJob())
	if exists(t, l, name) {
		t.Error("a record stays after its period")
	}
}

// daily returns the days of a zone that begin at that minute and hour.
func daily(t *testing.T, at, zone string) periods {
	t.Helper()
	spec, err := cron.Parse(at+" * * *", zone)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Next
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	for _, c := range []struct {
		name, now, end string // RFC 3339
		period         periods
	}{
		{"an hour", "2026-03-29T01:59:59Z", "2026-03-29T02:00:00Z", Every(time.Hour)},
		{"its first moment", "2026-03-29T02:00:00Z", "2026-03-29T03:00:00Z", Every(time.Hour)},
		{"a day of UTC", "2026-03-29T01:30:00+02:00", "2026-03-29T00:00:00Z", Every(24 * time.Hour)},
		{"a week, on Sunday", "2026-11-22T23:59:59Z", "2026-11-23T00:00:00Z", Every(7 * 24 * time.Hour)},
		{"a week, on Monday", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z", Every(7 * 24 * time.Hour)},
		{"a day of a zone", "2026-11-23T22:59:59Z", "2026-11-23T23:00:00Z", daily(t, "0 0", berlin)},
		{"a day of 23 hours", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", daily(t, "0 0", berlin)},
		{"a day of 25 hours", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", daily(t, "0 0", berlin)},
		{"before it begins at three", "2026-11-23T01:59:59Z", "2026-11-23T02:00:00Z", daily(t, "0 3", berlin)},
		{"when it begins at three", "2026-11-23T02:00:00Z", "2026-11-24T02:00:00Z", daily(t, "0 3", berlin)},
		{"a begin that is skipped", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", daily(t, "30 2", berlin)},
		{"after a begin that is skipped", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z", daily(t, "30 2", berlin)},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.period(now).UTC().Format(time.RFC3339); got != c.end {
			t.Errorf("%s: the period of %s ends at %s, want %s", c.name, c.now, got, c.end)
		}
	}
}

// onceModel plays replicas against a model with three states: free, running, done.
type onceModel struct {
	t        *testing.T
	replicas []*onceReplica
	name     string

	holder *onceReplica // the one whose lease holds
	done   bool
	fence  int64
	wins   int // in this period
}

type onceReplica struct {
	l       *Locker
	finish  chan error // for fn, nil while it does not run
	outcome chan onceOutcome
}

type onceOutcome struct {
	ran bool
	err error
}

// start calls Once in the background and returns when fn runs, or with the outcome.
func (m *onceModel) start(r *onceReplica) (running bool, out onceOutcome) {
	entered, finish := make(chan int64, 1), make(chan error)
	r.outcome = make(chan onceOutcome, 1)
	go func() {
		ran, err := r.l.Once(m.t.Context(), m.name, 10*long, never, func(_ context.Context, fence int64) error {
			entered <- fence
			return <-finish
		})
		r.outcome <- onceOutcome{ran, err}
	}()
	select {
	case fence := <-entered:
		if fence <= m.fence {
			m.t.Errorf("fence %d after %d", fence, m.fence)
		}
		m.fence, r.finish = fence, finish
		return true, out
	case out = <-r.outcome:
		return false, out
	}
}

// TestOnceModel lets replicas start, succeed, fail and lose their leases in any order, while
// replies are lost.
func TestOnceModel(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	replicas := make([]*onceReplica, 3)
	for i := range replicas {
		replicas[i] = &onceReplica{l: openOn(t, proxy.Client(t), Config{})}
	}
	scripttest.Load(t, replicas[0].l.run.Client, library)
	direct := open(t, Config{})
	n := 0
	proxy.DropReplyWhen(func(cmd []string) bool { n++; return evalsha(cmd) && n%25 == 0 })
	rapid.Check(t, func(rt *rapid.T) {
		m := &onceModel{t: t, replicas: replicas, name: redistest.Name(t)}
		pick := func(running bool) *onceReplica {
			var some []*onceReplica
			for _, r := range replicas {
				if (r.finish != nil) == running {
					some = append(some, r)
				}
			}
			if len(some) == 0 {
				rt.Skip("none is so")
			}
			return rapid.SampledFrom(some).Draw(rt, "replica")
		}
		finish := func(r *onceReplica, err error) {
			mine := m.holder == r
			r.finish <- err
			out := <-r.outcome
			r.finish = nil
			if mine {
				m.holder = nil
			}
			switch {
			case !out.ran:
				rt.Fatalf("it ran, and Once = %v, %v", out.ran, out.err)
			case err != nil:
				if !errors.Is(out.err, err) {
					rt.Fatalf("Once = %v, want fn's error", out.err)
				}
			case !mine:
				if !errors.Is(out.err, ErrLost) {
					rt.Fatalf("Once that lost its lease = %v, want ErrLost", out.err)
				}
			case out.err != nil:
				rt.Fatalf("Once = %v, want a success", out.err)
			default:
				m.done = true
				if m.wins++; m.wins > 1 {
					rt.Fatal("a second success in a period")
				}
			}
		}
		defer func() {
			for _, r := range replicas {
				if r.finish != nil {
					r.finish <- errors.New("over")
					<-r.outcome
					r.finish = nil
				}
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) {
				r := pick(false)
				running, out := m.start(r)
				want := fmt.Sprintf("running %v", m.holder == nil && !m.done)
				switch got := fmt.Sprintf("running %v", running); {
				case got != want:
					rt.Fatalf("%s (%v), want %s", got, out, want)
				case running:
					m.holder = r
				case m.done && (out.ran || out.err != nil):
					rt.Fatalf("Once of a period that is done = %v, %v", out.ran, out.err)
				case !m.done && (out.ran || !errors.Is(out.err, ErrHeld)):
					rt.Fatalf("Once of a held lease = %v, %v", out.ran, out.err)
				}
			},
			"succeed": func(*rapid.T) { finish(pick(true), nil) },
			"fail":    func(*rapid.T) { finish(pick(true), errors.New("failed")) },
			"deadline": func(*rapid.T) {
				if m.holder == nil && !m.done {
					rt.Skip("it is free")
				}
				pass(t, direct, m.name)
				if m.done {
					m.done, m.wins = false, 0
				}
				m.holder = nil
			},
		})
	})
}
