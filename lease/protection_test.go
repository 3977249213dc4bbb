package lease

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A history plays one way in which a lease could break its word, and returns an
// error if it did.
type history struct {
	name string
	play func(t *testing.T, l *Locker, name string) error
}

// hold acquires and reports the fence, 0 when the lease is held.
func hold(t *testing.T, l *Locker, name, token string) int64 {
	t.Helper()
	g, held, err := l.ask(t.Context(), request{name: name, token: token, ttl: long})
	if err != nil {
		t.Fatal(err)
	}
	if held != nil {
		return 0
	}
	return g.fence
}

// wait has a process be written down as one that waits for a lease that is held.
func wait(t *testing.T, l *Locker, name, id string) {
	t.Helper()
	if _, held, err := l.ask(t.Context(), request{name: name, token: "another", ttl: long, waiter: id}); err != nil || held == nil {
		t.Fatalf("ask = %v, %v, want that it is held", held, err)
	}
}

// release releases a lease and returns which processes are to be woken.
func release(t *testing.T, l *Locker, name, token string) []string {
	t.Helper()
	reply, err := l.run.Run(t.Context(), "release", baseKey(name), token)
	if err != nil || !reply.Bool() {
		t.Fatalf("release: %v, want it released", err)
	}
	now := reply.MilliTime()
	return waiting(reply.Text(), now)
}

func grows(fences ...int64) error {
	for i := 1; i < len(fences); i++ {
		if fences[i] <= fences[i-1] {
			return fmt.Errorf("fences do not grow: %d", fences)
		}
	}
	return nil
}

var histories = []history{
	{"two at once", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if hold(t, l, name, "b") != 0 {
			return errors.New("two holders")
		}
		return nil
	}},
	{"abandoned", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		pass(t, l, name)
		if hold(t, l, name, "b") == 0 {
			return errors.New("not taken over at its deadline")
		}
		return nil
	}},
	{"late refresh", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		pass(t, l, name)
		if _, err := l.Refresh(t.Context(), name, "a", long); !errors.Is(err, ErrLost) {
			return fmt.Errorf("refresh of an expired lease = %w", err)
		}
		return nil
	}},
	{"late release", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		pass(t, l, name)
		if err := l.Release(t.Context(), name, "a"); !errors.Is(err, ErrLost) {
			return fmt.Errorf("release of an expired lease = %w", err)
		}
		return nil
	}},
	{"stale refresh", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "b")
		if _, err := l.Refresh(t.Context(), name, "a", long); !errors.Is(err, ErrLost) {
			return fmt.Errorf("refresh of another's lease = %w", err)
		}
		return nil
	}},
	{"stale release", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "b")
		if err := l.Release(t.Context(), name, "a"); !errors.Is(err, ErrLost) {
			return fmt.Errorf("release of another's lease = %w", err)
		}
		return nil
	}},
	{"clock set back", func(t *testing.T, l *Locker, name string) error {
		first := hold(t, l, name, "a")
		ahead := first + time.Hour.Microseconds()
		set(t, l, name, "fence", ahead) // as if acquired before the clock was set back
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		return grows(ahead, hold(t, l, name, "b"))
	}},
	{"released with a fence ahead of the clock", func(t *testing.T, l *Locker, name string) error {
		ahead := hold(t, l, name, "a") + time.Hour.Microseconds()
		set(t, l, name, "fence", ahead) // as if acquired before the clock was set back
		release(t, l, name, "a")
		if ttl := integer(t, l.run.Client, "PTTL", baseKey(name)); ttl < (time.Hour + time.Minute - 10*time.Second).Milliseconds() {
			return fmt.Errorf("the fence is kept for %d ms, less than until the clock has passed it and a minute", ttl)
		}
		return nil
	}},
	{"lost key", func(t *testing.T, l *Locker, name string) error {
		first := hold(t, l, name, "a")
		pass(t, l, name)
		second := hold(t, l, name, "b")
		must(t, l.run.Client, "DEL", baseKey(name))
		return grows(first, second, hold(t, l, name, "c"))
	}},
	{"reaped with a fence ahead of the clock", func(t *testing.T, l *Locker, name string) error {
		ahead := hold(t, l, name, "a") + time.Hour.Microseconds()
		set(t, l, name, "fence", ahead)
		abandon(t, l, name)
		if _, err := l.run.Run(t.Context(), "reap", baseKey(name)); err != nil {
			return err
		}
		return grows(ahead, hold(t, l, name, "b"))
	}},
	{"repeated acquire", func(t *testing.T, l *Locker, name string) error {
		if first, second := hold(t, l, name, "a"), hold(t, l, name, "a"); first != second {
			return fmt.Errorf("fence %d, then %d", first, second)
		}
		return nil
	}},
	{"repeated release", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		return errors.Join(l.Release(t.Context(), name, "a"), l.Release(t.Context(), name, "a"))
	}},
	{"repeated release after the deadline", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		pass(t, l, name)
		return l.Release(t.Context(), name, "a")
	}},
	{"repeated release after the next acquire", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		hold(t, l, name, "b")
		return l.Release(t.Context(), name, "a")
	}},
	{"refresh after a release", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		if _, err := l.Refresh(t.Context(), name, "a", long); !errors.Is(err, ErrLost) {
			return fmt.Errorf("refresh of a released lease = %w", err)
		}
		return nil
	}},
	{"waits for the next holder", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		wait(t, l, name, "w")
		release(t, l, name, "a")
		hold(t, l, name, "b")
		if got := release(t, l, name, "b"); !slices.Equal(got, []string{"w"}) {
			return fmt.Errorf("%q wait, want w", got)
		}
		return nil
	}},
	{"waiters are forgotten", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		wait(t, l, name, "gone")
		const age = "return redis.call('SET', KEYS[1], (string.gsub(redis.call('GET', KEYS[1]), 'gone %d+;', 'gone 1;')))"
		must(t, l.run.Client, "EVAL", age, "1", baseKey(name))
		wait(t, l, name, "w")
		if text, err := do(t, l.run.Client, "GET", baseKey(name)).ToString(); strings.Contains(text, "gone") {
			return fmt.Errorf("the lease is %q, %w", text, err)
		}
		return nil
	}},
	{"many wait", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		for i := range 70 {
			wait(t, l, name, fmt.Sprint("w", i))
		}
		if got := release(t, l, name, "a"); len(got) != 64 || got[0] != "w6" || got[63] != "w69" {
			return fmt.Errorf("%d wait: %q, want the last 64", len(got), got)
		}
		return nil
	}},
	{"shorter refresh", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if info, err := l.Refresh(t.Context(), name, "a", time.Second); err != nil || info.Remaining < long/2 {
			return fmt.Errorf("the deadline moved nearer: %v, %w", info.Remaining, err)
		}
		return nil
	}},
	{"acquired again", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		if hold(t, l, name, "b") == 0 {
			return errors.New("a released lease is held")
		}
		if ttl := integer(t, l.run.Client, "PTTL", baseKey(name)); ttl != -1 {
			return fmt.Errorf("a held lease has a TTL of %d", ttl)
		}
		return nil
	}},
	{"released for good", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if err := l.Release(t.Context(), name, "a"); err != nil {
			return err
		}
		if ttl := integer(t, l.run.Client, "PTTL", baseKey(name)); ttl < 0 {
			return errors.New("a released lease stays for ever")
		}
		return nil
	}},
	{"done after the deadline", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		pass(t, l, name)
		return wantDone(t, l, name, "a", 2*long, 0)
	}},
	{"done by a stale holder", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "b")
		return wantDone(t, l, name, "a", 2*long, 0)
	}},
	{"done when the period is over", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		return wantDone(t, l, name, "a", -time.Second, 2)
	}},
	{"done twice", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "before")
		if err := l.Release(t.Context(), name, "before"); err != nil {
			return err
		}
		hold(t, l, name, "a")
		wait(t, l, name, "w")
		if err := errors.Join(wantDone(t, l, name, "a", 2*long, 1), wantDone(t, l, name, "a", 2*long, 1)); err != nil {
			return err
		}
		info, err := l.Show(t.Context(), name)
		if err != nil || !info.Held || info.Metadata != donePrefix || info.Remaining <= long {
			return fmt.Errorf("a record is %+v, %w", info, err)
		}
		if err := l.Release(t.Context(), name, "before"); err != nil {
			return fmt.Errorf("the release before is forgotten: %w", err)
		}
		if got := release(t, l, name, "a"); !slices.Equal(got, []string{"w"}) {
			return fmt.Errorf("%q wait, want w", got)
		}
		return nil
	}},
	{"reaped while held", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		if _, err := l.run.Run(t.Context(), "reap", baseKey(name)); err != nil {
			return err
		}
		if !exists(t, l, name) {
			return errors.New("a held lease was reaped")
		}
		return nil
	}},
}

// wantDone makes a record until that long from now, and checks the outcome.
func wantDone(t *testing.T, l *Locker, name, token string, left time.Duration, want int64) error {
	t.Helper()
	until := strconv.FormatInt(time.Now().Add(left).UnixMilli(), 10)
	reply, err := l.run.Run(t.Context(), "done", baseKey(name), token, until, donePrefix, millis(long))
	if err != nil {
		return err
	}
	if got := reply.Int(); got != want {
		return fmt.Errorf("done = %d, want %d", got, want)
	}
	return nil
}

// fullHistories are histories that need a server of their own.
var fullHistories = []history{
	{"refresh on a full server", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		_, err := l.Refresh(t.Context(), name, "a", 2*long)
		return err
	}},
	{"done on a full server", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		return wantDone(t, l, name, "a", 2*long, 1)
	}},
	{"waiting on a full server", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		_, _, err := l.ask(t.Context(), request{name: name, token: "b", ttl: long, waiter: "w"})
		return err
	}},
	{"acquire on a full server", func(t *testing.T, l *Locker, name string) error {
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		if _, _, err := l.ask(t.Context(), request{name: name, token: "a", ttl: long}); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("acquire = %w, want ErrFull", err)
		}
		return nil
	}},
}

// protections are the safeguards that keep the histories from failing, and how to take each out.
var protections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"acquire respects the holder", "if held then", "if held and owner == ARGV[1] then", []string{"two at once"}},
	{"the deadline frees the lease", "held = now < deadline", "held = true", []string{"abandoned", "late refresh"}},
	{"the holder is held until the deadline", "held = now < deadline", "held = false", []string{"two at once", "repeated acquire"}},
	{"refresh compares the token", "if not held or owner ~= ARGV[1] then", "if not held then", []string{"stale refresh"}},
	{"release compares the token", "if owner ~= ARGV[1] or now >= deadline then", "if now >= deadline then", []string{"stale release"}},
	{"refresh needs a lease that is held", "if not held or owner ~= ARGV[1] then", "if owner ~= ARGV[1] then",
		[]string{"late refresh", "refresh after a release"}},
	{"release needs a deadline that has not come", "if owner ~= ARGV[1] or now >= deadline then", "if owner ~= ARGV[1] then", []string{"late release"}},
	{"the fence is larger than the last", "if fence >= stamp then", "if false then", []string{"clock set back"}},
	{"the fence comes from the clock", "  stamp = string.format('%.0f', fence + 1)\nend",
		"end\nstamp = string.format('%016.0f', (tonumber(fence) or 0) + 1)", []string{"lost key"}},
	{"the fence outlives the release", "redis.call('PEXPIRE', K, ms)", "redis.call('UNLINK', K)", []string{"clock set back"}},
	{"a released fence stays until the clock has passed it", "if fence > stamp then", "if false then", []string{"released with a fence ahead of the clock"}},
	{"reap keeps fences ahead of the clock", "math.ceil((fence + 1 - stamp) / 1000)", "0", []string{"reaped with a fence ahead of the clock"}},
	{"reap keeps what is not abandoned", "math.max(deadline + keep - now, ", "math.max(0, ", []string{"reaped while held"}},
	{"the same token adopts", "owner == ARGV[1] and 1 or 0", "0", []string{"repeated acquire"}},
	{"a release is remembered", "    released = owner\n  end\n  local own", "  end\n  local own", []string{"repeated release after the deadline"}},
	{"the next holder keeps who released", ".. ARGV[1] .. text .. released ..", ".. ARGV[1] .. text .. string.rep('x', #released) ..",
		[]string{"repeated release after the next acquire"}},
	{"the next holder keeps who waits", "released .. waiters)", "released)", []string{"waits for the next holder"}},
	{"who does not come again is forgotten", "elseif now - at < 2000 then", "elseif at then", []string{"waiters are forgotten"}},
	{"who waits is bounded", "if #list >= 64 then", "if #list >= 6400 then", []string{"many wait"}},
	{"the deadline never moves nearer", "math.max(deadline, now + ARGV[2])", "now + ARGV[2]", []string{"shorter refresh"}},
	{"a lease has no TTL", ".. ARGV[1] .. text .. released .. waiters)", ".. ARGV[1] .. text .. released .. waiters, 'KEEPTTL')",
		[]string{"acquired again"}},
	{"what is left has one", "redis.call('PEXPIRE', K, ms)", "", []string{"released for good"}},
	{"a lease with a TTL is free", "local free = redis.call('PTTL', K) ~= -1", "local free = false", []string{"acquired again"}},
	{"refresh begins with what is not refused", "redis.call('PERSIST', K) -- a full server accepts this first write\nredis", "redis", []string{"refresh on a full server"}},
	{"done checks the deadline", "if not held or owner ~= ARGV[1] then\n  return 0", "if owner ~= ARGV[1] then\n  return 0", []string{"done after the deadline"}},
	{"done checks the token", "if not held or owner ~= ARGV[1] then\n  return 0", "if not held then\n  return 0", []string{"done by a stale holder"}},
	{"done checks the period", "if ARGV[2] <= now then", "if false then", []string{"done when the period is over"}},
	{"done keeps the release before and who waits", "ARGV[3] .. released .. waiters", "ARGV[3] .. string.rep('x', #released)", []string{"done twice"}},
	{"done begins with what is not refused", "redis.call('PERSIST', K) -- a full server accepts this first write\nredis.call('SET', K, string.sub(value, 1, 19) .. ARGV[2]",
		"redis.call('SET', K, string.sub(value, 1, 19) .. ARGV[2]", []string{"done on a full server"}},
	{"waiting begins with what is not refused", "redis.call('PERSIST', K) -- a full server accepts this first write\n      redis", "redis", []string{"waiting on a full server"}},
	{"acquire begins with what is refused", "local text = ARGV[3]", "redis.call('PERSIST', K)\nlocal text = ARGV[3]",
		[]string{"acquire on a full server"}},
}

func play(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	var l *Locker
	i := slices.IndexFunc(histories, func(h history) bool { return h.name == name })
	list := histories
	if i >= 0 {
		l = open(t, Config{})
	} else {
		l = openOn(t, redistest.Start(t, redistest.Options{}).Client(t), Config{})
		list = fullHistories
		i = slices.IndexFunc(list, func(h history) bool { return h.name == name })
	}
	l.run.Scripts = scripts
	return list[i].play(t, l, redistest.Name(t))
}

// TestHistories plays calls in a given order, with faults between them, and looks at who holds the lease.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, h := range append(slices.Clone(histories), fullHistories...) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, h.name, library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := play(t, name, scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
