package scatter

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
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
	s := sc.Session("x")
	s.Add("beside", 1)
	write(s)
	err := s.Flush(t.Context())
	if got := text(t, server.Client(t), "GET", "beside"); got != "" {
		return fmt.Errorf("a half of the session was written, with error %w", err)
	}
	if !errors.Is(err, refusal) {
		return fmt.Errorf("error = %w, want %w", err, refusal)
	}
	return nil
}

// sums returns an error if a counter is not what it should be.
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
		s.sent = &flight{args: s.batch.args(), to: sc.servers[0], request: new(reqid.Lanes).Take(t.Context())}
		again := *s.sent
		err := s.send(t.Context())
		s.sent = &again
		return errors.Join(err, s.send(t.Context()), sums(t, server, "n", "1"))
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
		return halfWritten(t, sc, server, ErrType, func(s *Session) { s.Best("n", "m", 1) })
	}},
	{"a new key of two types", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		return halfWritten(t, sc, server, ErrType, func(s *Session) {
			s.Insert("n", "m")
			s.Best("n", "m", 1)
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
	{"the server is full", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		flush(t, sc, func(s *Session) { s.Push("l", 5, nil) }) // so that the script is there
		must(t, server.Client(t), "CONFIG", "SET", "maxmemory", "1")
		return halfWritten(t, sc, server, millrace.ErrFull, func(s *Session) { s.Push("l", 1, nil) })
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
		flush(t, sc, func(s *Session) { s.Best("z", "m", 5); s.Least("y", "m", 5) })
		flush(t, sc, func(s *Session) { s.Best("z", "m", 4); s.Least("y", "m", 6) })
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
		key := "n" + Bucket{Every: time.Hour, At: at}.stretch().suffix
		if left := integer(t, server.Client(t), "PTTL", key); left < 2*time.Hour.Milliseconds() {
			return fmt.Errorf("it expires in %d ms", left)
		}
		return nil
	}},
	{"a bucket has a life", func(t *testing.T, sc *Scatter, server *redistest.Server) error {
		at := time.Now()
		flush(t, sc, func(s *Session) { s.In(Bucket{At: at}).Add("n", 1) })
		key := "n" + Bucket{Every: DefaultEvery, At: at}.stretch().suffix
		if left := integer(t, server.Client(t), "PTTL", key); left < 0 {
			return errors.New("it stays for ever")
		}
		return nil
	}},
}

// flushProtections are what keeps the histories from failing, and how to take it out of
// the script.
var flushProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"the request is known", "if answered then", "if false then", []string{"the reply is lost"}},
	{"the answer is kept", "return answer('done', true)", "return 'done'", []string{"the reply is lost"}},
	{"the version is looked at", "if versioned and versioned ~= '1' then", "if false then", []string{"another version"}},
	{"the version is written", "redis.call('HSET', meta, 'version', '1')", "", []string{"a version is written"}},
	{"types are looked at", "type(value) ~= 'table' and", "",
		[]string{"a list is no counter", "a counter is no list", "a counter is no set", "a counter has no scores"}},
	{"a key has one type in a session", "(families[key] or family) == family", "true", []string{"a new key of two types"}},
	{"numbers are Redis's", " or string.byte(digits) == 48 and text ~= '0'", "", []string{"no number"}},
	{"numbers fit", "fine = b and fits(b, r)", "fine = b", []string{"too large a number"}},
	{"sums fit", "fit = fits(billions[key], rests[key])", "", []string{"too large a sum", "too large a sum of two"}},
	{"sums are of the whole session", "more, b, r = ARGV[i + 4], billions[key], rests[key]", "more, b, r = ARGV[i + 4], nil, nil", []string{"too large a sum of two"}},
	{"numbers are finite", "fine = sum and math.abs(sum) < math.huge", "fine = sum", []string{"an infinite number"}},
	{"sums are finite", "fit = math.abs(rests[key]) < math.huge", "", []string{"an infinite sum"}},
	{"numbers are as Redis reads them", "string.find(value, '^[-+.%d][-+.%deE]*$') and", "", []string{"a number that only Lua reads"}},
	{"the first write is refused by a full server", "local writes = 0", "local writes = redis.call('HDEL', meta, '')", []string{"the server is full"}},
	{"lists are cut", "redis.call('LTRIM', key, '0', ARGV[first] - 1)", "", []string{"a list is long"}},
	{"the best stays", "'GT', ", "", []string{"the best is worse"}},
	{"the least stays", "'LT', ", "", []string{"the best is worse"}},
	{"a life is not shortened", "now + left < ending", "true", []string{"who keeps less comes later"}},
	{"a bucket gets a life", "left == -2 or", "", []string{"a bucket has a life"}},
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
