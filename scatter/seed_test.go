package scatter

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/reqid"
)

// TestFlushUnderASeed: a session that one process was asked to flush and another one is
// asked to flush again, under the same seed, counts once.
func TestFlushUnderASeed(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 2)
	for i, tt := range []struct {
		seed string
		want int64 // on both servers together, afterwards
	}{{"one", 1}, {"one", 1}, {"two", 2}, {"", 3}, {"", 4}, {"one", 4}} {
		s := newScatter(t, servers, Config{}).Session("user 7")
		s.Add("clicks", 1)
		if err := s.Flush(reqid.With(t.Context(), tt.seed)); err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, one := range servers {
			sum += integer(t, one.Client(t), "GET", "clicks")
		}
		if sum != tt.want {
			t.Errorf("after flush %d, under the seed %q, clicks = %d, want %d", i, tt.seed, sum, tt.want)
		}
	}
}

// TestFlushesOfOneRequest: each flush of a request has its own part of the
// request's seed, and a repeat of both counts neither twice.
func TestFlushesOfOneRequest(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	for range 2 {
		ctx := reqid.With(t.Context(), "one")
		s := newScatter(t, servers, Config{}).Session("user 7")
		for range 2 {
			s.Add("clicks", 1)
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := integer(t, servers[0].Client(t), "GET", "clicks"); got != 2 {
			t.Errorf("clicks = %d, want 2", got)
		}
	}
}

// TestLanesLeave: a server's memory of flushes expires by itself, and not before a
// repeat may come.
func TestLanesLeave(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 1)
	c := servers[0].Client(t)
	for keys, tt := range map[string]struct {
		seed string
		long time.Duration
	}{
		"lanes": {"", 10 * time.Minute},
		"keyed": {"one", 24 * time.Hour},
	} {
		s := newScatter(t, servers, Config{}).Session("user 7")
		s.Add("clicks", 1)
		if err := s.Flush(reqid.With(t.Context(), tt.seed)); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, i := range []string{"0", "1"} {
			left := time.Duration(integer(t, c, "PTTL", "mr:scatter:{"+"main"+"}:"+keys+":"+i)) * time.Millisecond
			if left == -2*time.Millisecond {
				continue // there is none
			}
			if found++; left < tt.long-time.Minute || left > 2*tt.long {
				t.Errorf("%s:%s stays for %v, want %v to %v", keys, i, left, tt.long, 2*tt.long)
			}
		}
		if found == 0 {
			t.Errorf("nothing is known of a flush in %s", keys)
		}
	}
}
