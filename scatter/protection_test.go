package scatter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A flushHistory plays one way in which a flush could break its word on a server, and
// returns an error if it did.
type flushHistory struct {
	name string
	play func(t *testing.T, sc *Scatter, server *redistest.Server) error
}

// halfWritten plays a session that is refused because of its last operation, and
// returns an error if anything of it was written, or if it was not refused.
func halfWritten(t *testing.T, sc *Scatter, server *redistest.Server, refusal error, write func(*Session)) error {
	t.Helper()
	before := contents(t, server.Client(t))
	s := sc.Session("x")
	s.Add("beside", 1)
	write(s)
	if err := s.Flush(t.Context()); !errors.Is(err, refusal) {
		return fmt.Errorf("error = %w, want %w", err, refusal)
	}
	if diff := cmp.Diff(before, contents(t, server.Client(t))); diff != "" {
		return fmt.Errorf("something was written (-before +after):\n%s", diff)
	}
	return nil
}

// undone plays a session that is refused behind some writes, which are undone.
func undone(t *testing.T, sc *Scatter, server *redistest.Server, write func(*Session)) error {
	t.Helper()
	must(t, server.Client(t), "SADD", "zz", "m")
	return halfWritten(t, sc, server, ErrType, func(s *Session) {
		write(s)
		s.Push("zz", 1, nil) // behind all counters
		s.Insert("set", "m")
	})
}

// sums returns an error if a counter has another value.
func sums(t *testing.T, server *redistest.Server, key, want string) error {
	t.Helper()
	if got := text(t, server.Client(t), "GET", key); got != want {
		return fmt.Errorf("%s = %q, want %q", key, got, want)
	}
	return nil
}

var flushHistories = []flushHistory{
	{"the reply is lost", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		s := sc.Session("x")
		s.Add("n", 1)
		s.sent = &flight{batch: s.batch, to: sc.servers[0], request: new(reqid.Lanes).Take(t.Context()), by: "9999999999999"}
		again := *s.sent
		err := s.send(t.Context())
		s.sent = &again
		return errors.Join(err, s.send(t.Context()), sums(t, server, "n", "1"))
	}},
	{"the reply is lost for long", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		s := sc.Session("x")
		s.Add("n", 1)
		s.sent = &flight{batch: s.batch, to: sc.servers[0], request: new(reqid.Lanes).Take(t.Context()), by: "9999999999999"}
		again := *s.sent
		if err := s.send(t.Context()); err != nil {
			return err
		}
		age(t, sc, server)
		again.by, again.open, s.sent = "1", true, &again
		if err := s.send(t.Context()); !errors.Is(err, millrace.ErrUncertain) {
			return fmt.Errorf("error = %w, want ErrUncertain", err)
		}
		return sums(t, server, "n", "1")
	}},
	{"another version", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "HSET", sc.base+":meta", "version", "2")
		return halfWritten(t, sc, server, millrace.ErrVersion, func(*Session) {})
	}},
	{"a version is written", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		flush(t, sc, func(s *Session) { s.Add("n", 1) })
		if got := text(t, server.Client(t), "HGET", sc.base+":meta", "version"); got != "1" {
			return fmt.Errorf("version = %q", got)
		}
		return nil
	}},
	{"a list is no counter", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "LPUSH", "l", "e")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Add("l", 1) })
	}},
	{"a counter is no list", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Push("n", 1, nil) })
	}},
	{"a counter is no set", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Insert("n", "m") })
	}},
	{"a counter has no scores", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Score("n", "m", 1, Max) })
	}},
	{"a new key of two types", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		return halfWritten(t, sc, server, ErrType, func(s *Session) {
			s.Insert("n", "m")
			s.Score("n", "m", 1, Max)
		})
	}},
	{"no number", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "007")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Add("n", 1) })
	}},
	{"too large a number", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "9223372036854775808")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Add("n", -5) })
	}},
	{"too large a sum", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "9223372036854775807")
		return halfWritten(t, sc, server, ErrOverflow, func(s *Session) { s.Add("n", 1) })
	}},
	{"too large a sum of two", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		const big = 5_000_000_000_000_000_000
		return halfWritten(t, sc, server, ErrOverflow, func(s *Session) {
			s.In(Bucket{Every: 100 * 365 * 24 * time.Hour}).Add("n", big)
			s.Add("n:0", big)
		})
	}},
	{"a new counter is a set in the same session", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		return halfWritten(t, sc, server, ErrType, func(s *Session) {
			s.Insert("set", "m")
			s.Insert("n", "m")
			s.Add("n", 1)
		})
	}},
	{"one set of two is none", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1")
		return halfWritten(t, sc, server, ErrType, func(s *Session) {
			s.Insert("set", "m")
			s.Insert("n", "m")
		})
	}},
	{"an infinite number", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1e999")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.AddFloat("n", 1) })
	}},
	{"an infinite sum", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "1e308")
		return halfWritten(t, sc, server, ErrOverflow, func(s *Session) { s.AddFloat("n", 1e308) })
	}},
	{"a number that only Lua reads", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", " 1")
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.AddFloat("n", 1) })
	}},
	{"a counter was there", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "5", "EX", "100")
		must(t, server.Client(t), "SET", "m", "-1")
		return undone(t, sc, server, func(s *Session) {
			s.Add("n", -5)
			s.Add("m", 0)
			s.Add("o", 0)
		})
	}},
	{"a counter that has an end is 0", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "0", "EX", "100")
		return undone(t, sc, server, func(s *Session) { s.Add("n", 5) })
	}},
	{"a sum that has no opposite", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "5")
		return undone(t, sc, server, func(s *Session) {
			s.Add("m", math.MinInt64)
			s.Add("n", math.MinInt64)
		})
	}},
	{"one counter goes up and down", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n:0", "3")
		return undone(t, sc, server, func(s *Session) {
			s.Add("n:0", -5)
			s.In(Bucket{Every: 100 * 365 * 24 * time.Hour}).Add("n", math.MaxInt64)
		})
	}},
	{"a float was there", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "SET", "n", "0.1", "EX", "100")
		return undone(t, sc, server, func(s *Session) { s.AddFloat("n", 0.2) })
	}},
	{"a float was not there", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		return undone(t, sc, server, func(s *Session) { s.AddFloat("n", 0.2) })
	}},
	{"a list was there", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		must(t, server.Client(t), "RPUSH", "l", "1 a", "1 b", "1 c")
		return undone(t, sc, server, func(s *Session) {
			s.Push("l", 2, []byte("x"))
			s.Push("l", 2, []byte("y"))
			s.Push("new", 2, []byte("y"))
		})
	}},
	{"sums of floats leave nothing behind", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		flush(t, sc, func(s *Session) { s.AddFloat("n", 1) })
		if got := text(t, server.Client(t), "HGET", sc.base+":meta", "sum"); got != "" {
			return fmt.Errorf("a sum of %s is left", got)
		}
		return nil
	}},
	{"the server is full", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		flush(t, sc, func(s *Session) { s.Push("l", 5, nil) }) // so that the script is there
		must(t, server.Client(t), "CONFIG", "SET", "maxmemory", "1")
		for name, write := range map[string]func(*Session){
			"Add":      func(s *Session) { s.Add("n", 1) },
			"AddFloat": func(s *Session) { s.AddFloat("f", 1) },
			"Push":     func(s *Session) { s.Push("l", 1, nil) },
			"Insert":   func(s *Session) { s.Insert("s", "m") },
			"Score":    func(s *Session) { s.Score("z", "m", 1, Sum) },
		} {
			before := contents(t, server.Client(t))
			s := sc.Session("x")
			write(s)
			if err := s.Flush(t.Context()); !errors.Is(err, millrace.ErrFull) {
				return fmt.Errorf("%s on a full server: %w", name, err)
			}
			if diff := cmp.Diff(before, contents(t, server.Client(t))); diff != "" {
				return fmt.Errorf("%s on a full server (-before +after):\n%s", name, diff)
			}
		}
		return nil
	}},
	{"a list is long", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		for range 5 {
			flush(t, sc, func(s *Session) { s.Push("l", 3, nil) })
		}
		if n := integer(t, server.Client(t), "LLEN", "l"); n != 3 {
			return fmt.Errorf("entries = %d, want 3", n)
		}
		return nil
	}},
	{"the best is worse", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		flush(t, sc, func(s *Session) { s.Score("z", "m", 5, Max); s.Score("y", "m", 5, Min) })
		flush(t, sc, func(s *Session) { s.Score("z", "m", 4, Max); s.Score("y", "m", 6, Min) })
		if z, y := text(t, server.Client(t), "ZSCORE", "z", "m"), text(t, server.Client(t), "ZSCORE", "y", "m"); z != "5" || y != "5" {
			return fmt.Errorf("scores = %s and %s, want 5", z, y)
		}
		return nil
	}},
	{"who keeps less comes later", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		at := time.Now()
		for _, keep := range []time.Duration{3 * time.Hour, time.Hour} {
			flush(t, sc, func(s *Session) { s.In(Bucket{Every: time.Hour, Keep: keep, At: at}).Add("n", 1) })
		}
		key := "n" + Bucket{Every: time.Hour, At: at}.interval().suffix
		if left := integer(t, server.Client(t), "PTTL", key); left < 2*time.Hour.Milliseconds() {
			return fmt.Errorf("it expires in %d ms", left)
		}
		return nil
	}},
	{"a bucket has a life", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		at := time.Now()
		flush(t, sc, func(s *Session) { s.In(Bucket{At: at}).Add("n", 1) })
		key := "n" + Bucket{Every: time.Minute, At: at}.interval().suffix
		if left := integer(t, server.Client(t), "PTTL", key); left < 0 {
			return errors.New("it stays for ever")
		}
		if left, err := sc.Left(t.Context()); err != nil || left[0].Empty || left[0].Until.Before(at.Add(4*time.Hour)) {
			return fmt.Errorf("%+v is left, %w", left, err)
		}
		return nil
	}},
	{"a counter stays", func(t *testing.T, sc *Scatter, _ *redistest.Server) error {
		flush(t, sc, func(s *Session) {
			s.In(Bucket{}).Add("n", 1)
			s.Add("n", 1)
		})
		if left, err := sc.Left(t.Context()); err != nil || left[0].Empty || !left[0].Forever {
			return fmt.Errorf("%+v is left, %w", left, err)
		}
		return nil
	}},
}

// flushProtections are the safeguards that keep the histories from failing, and how to take each out
// of the script.
var flushProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"the request is known", "if answered then", "if false then", []string{"the reply is lost"}},
	{"the answer is kept", "return answer(string.format('%.0f', now), true)", "return string.format('%.0f', now)", []string{"the reply is lost"}},
	{"what is too old is refused", "if now > tonumber(ARGV[1]) then", "if false then", []string{"the reply is lost for long"}},
	{"the version is looked at", "if known[1] and known[1] ~= '1' then", "if false then", []string{"another version"}},
	{"the version is written", "redis.call('HSET', meta, 'version', '1')", "", []string{"a version is written"}},
	{"what was written is undone", "for r = written and 0 or #runs, 1, -1 do", "for r = 0, 1 do",
		[]string{"a list is no counter", "a counter is no list", "a counter is no set", "a counter has no scores", "no number", "too large a sum", "an infinite sum"}},
	{"all of a run is undone", "math.min(at, last + 1) - step, first, -step do", "first, first do", []string{"a counter was there"}},
	{"the last is undone first", "for r = written and 0 or #runs, 1, -1 do", "for r = 1, written and 0 or #runs do", []string{"one counter goes up and down"}},
	{"what goes down is undone, too", "string.gsub('-' .. by, '^%-%-', '')", "'-' .. by", []string{"a counter was there"}},
	{"what adds nothing is undone, too", "by == '0' and by or ", "", []string{"a counter was there"}},
	{"a counter that was not there goes", "redis.call('PTTL', key) == -1 then", "false then", []string{"a list is no counter", "a sum that has no opposite"}},
	{"a counter that has an end stays", "and redis.call('PTTL', key) == -1 then", "then", []string{"a counter that has an end is 0"}},
	{"the smallest number has no opposite", "if by == '-9223372036854775808' then", "if false then", []string{"a sum that has no opposite"}},
	{"floats are set back", "redis.call('SET', key, olds[i], 'KEEPTTL')", "redis.call('HINCRBYFLOAT', meta, 'sum', '-' .. by)", []string{"a float was there"}},
	{"floats keep their end", "olds[i], 'KEEPTTL')", "olds[i])", []string{"a float was there"}},
	{"new floats go", "elseif kind == 'float' then\n      redis.call('DEL', key)", "elseif kind == 'float' then", []string{"a float was not there"}},
	{"entries are taken back", "redis.call('LTRIM', key, last - first - 1, '-1')", "", []string{"a list was there"}},
	{"lists are cut in the end", "later[#later + 1] = {'push', key, i + 1}", "redis.call('LTRIM', key, '0', ARGV[i + 1] - 1)", []string{"a list was there"}},
	{"no sum is left behind", "redis.call('HDEL', meta, 'sum')", "", []string{"an infinite sum", "sums of floats leave nothing behind"}},
	{"sets are looked at", "redis.call('SCARD', key) and", "", []string{"one set of two is none"}},
	{"a key has one type in a session", "if (families[key] or family) ~= family then", "if false then", []string{"a new key of two types"}},
	{"numbers are finite", "if old and not finite(old) then", "if false then", []string{"an infinite number", "a number that only Lua reads"}},
	{"sums are finite", "if not finite(sum) then", "if false then", []string{"an infinite sum"}},
	{"the first write is refused by a full server", "local written, problem =", "redis.call('HDEL', meta, '')\nlocal written, problem =", []string{"the server is full"}},
	{"lists are cut", "redis.call('LTRIM', key, '0', ARGV[first] - 1)", "", []string{"a list is long"}},
	{"the best stays", "'GT', ", "", []string{"the best is worse"}},
	{"the least stays", "'LT', ", "", []string{"the best is worse"}},
	{"a life is not shortened", "now + left < ending - 100", "true", []string{"who keeps less comes later"}},
	{"a bucket gets a life", "left == -2 or", "", []string{"a bucket has a life"}},
	{"it is known until when", "redis.call('HSET', meta, 'until', string.format('%.0f', latest))", "", []string{"a bucket has a life"}},
	{"it is known what stays", "redis.call('HSET', meta, 'forever', '1')", "", []string{"a counter stays"}},
}

func playFlush(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	servers := startServers(t, 1)
	sc := newScatter(t, servers, Config{})
	sc.scripts = scripts
	i := slices.IndexFunc(flushHistories, func(h flushHistory) bool { return h.name == name })
	return flushHistories[i].play(t, sc, servers[0])
}

func TestFlushHistories(t *testing.T) {
	t.Parallel()
	for _, h := range flushHistories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := playFlush(t, h.name, library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryProtectionOfFlushIsNeeded takes each protection out and expects the histories
// to notice.
func TestEveryProtectionOfFlushIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range flushProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := playFlush(t, name, scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
