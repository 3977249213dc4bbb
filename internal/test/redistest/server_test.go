package redistest

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func get(t *testing.T, c rueidis.Client, key string) string {
	t.Helper()
	got, err := c.Do(t.Context(), c.B().Get().Key(key).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("GET %s: %v", key, err)
	}
	return got
}

func set(t *testing.T, c rueidis.Client, key, value string) {
	t.Helper()
	if err := c.Do(t.Context(), c.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		t.Fatalf("SET %s: %v", key, err)
	}
}

func TestStartServesOnSocketAndTCP(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"socket": {}, "tcp": {TCP: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, opts)
			c := s.Client(t)
			set(t, c, "k", "v")
			if got, want := get(t, c, "k"), "v"; got != want {
				t.Errorf("GET k = %q, want %q", got, want)
			}
			if got, want := strings.HasPrefix(s.URL(), "redis://127.0.0.1:"), opts.TCP; got != want {
				t.Errorf("URL %q is TCP: %v, want %v", s.URL(), got, want)
			}
		})
	}
}

func TestAOFSurvivesKill(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"with": {AOF: true}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, opts)
			set(t, s.Client(t), "k", "v")
			before := s.PID()
			s.Kill()
			s.Restart()
			want := ""
			if opts.AOF {
				want = "v"
			}
			if got := get(t, s.Client(t), "k"); got != want {
				t.Errorf("after Kill and Restart GET k = %q, want %q", got, want)
			}
			if s.PID() == before {
				t.Errorf("PID() = %d as before the restart", before)
			}
		})
	}
}

func TestMemoryLimitRefusesWrites(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{MaxMemory: "2mb"})
	if got, want := s.Info("memory")["maxmemory_policy"], "noeviction"; got != want {
		t.Errorf("maxmemory_policy = %q, want %q", got, want)
	}
	c := s.Client(t)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = c.Do(t.Context(), c.B().Append().Key("k").Value(strings.Repeat("x", 1<<16)).Build()).Error()
	}
	if err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Errorf("error of a write over the limit = %v, want OOM", err)
	}
}

func TestPauseHoldsAnswers(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{})
	c := s.Client(t)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Do(ctx, c.B().Get().Key("k").Build()).Error(); err == nil || rueidis.IsRedisNil(err) {
		t.Errorf("GET from a paused server = %v, want a timeout", err)
	}
	s.Resume()
	set(t, c, "k", "v")
}

func TestSharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := Shared(t), Shared(t)
	if got, want := a.PID(), b.PID(); got != want {
		t.Errorf("PID of the second Shared = %d, want %d", got, want)
	}
	name := Name(t)
	set(t, a.Client(t), name, "v")
	if got, want := get(t, b.Client(t), name), "v"; got != want {
		t.Errorf("GET = %q, want %q", got, want)
	}
}

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Errorf(string, ...any) { r.errors++ }

func TestKnows(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for command, want := range map[string]bool{"evalsha": true, "nosuchcommand": false} {
		if got := s.Knows(command); got != want {
			t.Errorf("Knows(%q) = %t, want %t", command, got, want)
		}
	}
}

func TestSharedIsNotHurt(t *testing.T) {
	t.Parallel()
	tb := &recorder{TB: t}
	s := Shared(tb)
	s.Kill()
	s.Pause()
	s.Restart()
	if got, want := tb.errors, 3; got != want {
		t.Errorf("Kill, Pause and Restart of the shared server failed the test %d times, want %d", got, want)
	}
	set(t, s.Client(t), Name(t), "still here")
}

func TestNameIsUniqueAndSafe(t *testing.T) {
	t.Parallel()
	t.Run("{odd}/näme with a very long tail "+strings.Repeat("x", 100), func(t *testing.T) {
		a, b := Name(t), Name(t)
		if a == b {
			t.Errorf("Name gave %q twice", a)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_-]{10,99}$`).MatchString(a) {
			t.Errorf("Name() = %q, want at most 99 safe bytes", a)
		}
	})
}

// skipped is a testing.TB that notes how a test ended.
type skipped struct {
	testing.TB
	verdict string
}

func (s *skipped) Skipf(string, ...any)  { s.verdict = "skip" }
func (s *skipped) Fatalf(string, ...any) { s.verdict = "fatal" }

func TestMissingServerSkipsExceptInCI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("MILLRACE_TEST_SERVER", "")
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		tb := &skipped{TB: t}
		if Binary(tb); !strings.HasPrefix(tb.verdict, want) {
			t.Errorf("with CI=%q a missing server ended the test with %q, want %q", ci, tb.verdict, want)
		}
	}
	t.Setenv("MILLRACE_TEST_SERVER", os.Args[0])
	if got, want := Binary(t), os.Args[0]; got != want {
		t.Errorf("Binary() = %q, want MILLRACE_TEST_SERVER %q", got, want)
	}
}
