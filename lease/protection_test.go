package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
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
	g, held, err := l.ask(t.Context(), name, token, long, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if held != nil {
		return 0
	}
	return g.fence
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
	{"lost hash", func(t *testing.T, l *Locker, name string) error {
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
		hold(t, l, name, "b")
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

// fullHistories are histories that need a server of their own.
var fullHistories = []history{
	{"refresh on a full server", func(t *testing.T, l *Locker, name string) error {
		hold(t, l, name, "a")
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		_, err := l.Refresh(t.Context(), name, "a", 2*long)
		return err
	}},
	{"acquire on a full server", func(t *testing.T, l *Locker, name string) error {
		must(t, l.run.Client, "CONFIG", "SET", "maxmemory", "1")
		if _, _, err := l.ask(t.Context(), name, "a", long, Options{}); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("acquire = %w, want ErrFull", err)
		}
		return nil
	}},
}

// protections are what keeps the histories from failing, and how to take it out.
var protections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"acquire respects the holder", "if held then", "if held and owner == ARGV[1] then", []string{"two at once"}},
	{"the deadline frees the lease", "local held = owner and now < deadline", "local held = owner",
		[]string{"abandoned", "late refresh", "late release"}},
	{"the holder is held until the deadline", "local held = owner and now < deadline", "local held = owner and false",
		[]string{"two at once", "repeated acquire"}},
	{"refresh and release compare the token", "if not held or owner ~= ARGV[1] then", "if not held then",
		[]string{"stale refresh", "stale release"}},
	{"refresh and release need a lease that is held", "if not held or owner ~= ARGV[1] then", "if owner ~= ARGV[1] then",
		[]string{"late refresh", "late release"}},
	{"the fence is larger than the last", "math.max(fence + 1, now_us)", "now_us", []string{"clock set back"}},
	{"the fence comes from the clock", "math.max(fence + 1, now_us)", "fence + 1", []string{"lost hash"}},
	{"the fence outlives the release", "'HDEL', K, 'token',", "'HDEL', K, 'fence', 'token',", []string{"clock set back"}},
	{"reap keeps fences ahead of the clock", "math.ceil((fence + 1 - now_us) / 1000)", "0", []string{"reaped with a fence ahead of the clock"}},
	{"reap keeps what is not abandoned", "math.max(deadline + keep - now, ", "math.max(0, ", []string{"reaped while held"}},
	{"the same token adopts", "owner == ARGV[1] and 1 or 0", "0", []string{"repeated acquire"}},
	{"a release is remembered", "redis.call('HSET', K, 'released', ARGV[1])", "", []string{"repeated release"}},
	{"the deadline never moves nearer", "math.max(deadline, now + tonumber(ARGV[2]))", "now + tonumber(ARGV[2])", []string{"shorter refresh"}},
	{"a lease has no TTL", "redis.call('PERSIST', K)", "", []string{"acquired again"}},
	{"what is left has one", "redis.call('PEXPIRE', K, keep)", "", []string{"released for good"}},
	{"refresh begins with what is not refused", "redis.call('HDEL', K, '')", "", []string{"refresh on a full server"}},
	{"acquire begins with what is refused", "local ttl = tonumber(ARGV[2])", "local ttl = tonumber(ARGV[2])\nredis.call('HDEL', K, '')",
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
