package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// found returns the finding of a check of the one server.
func found(t *testing.T, client rueidis.Client, check string) Finding {
	t.Helper()
	findings := examined(t, client).Nodes[0].Findings
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == check })
	if i < 0 {
		t.Fatalf("no check %s in %+v", check, findings)
	}
	return findings[i]
}

// during makes a call at each interval until the test ends.
func during(t *testing.T, interval time.Duration, call func()) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		next := time.NewTicker(interval)
		defer next.Stop()
		for {
			select {
			case <-done:
				return
			case <-next.C:
				call()
			}
		}
	}()
	t.Cleanup(func() { close(done); <-ended })
}

// spin is a script that keeps the server busy for so many milliseconds.
const spin = `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
local start = now() while now() - start < tonumber(ARGV[1]) do end`

func TestJudgeLoad(t *testing.T) {
	t.Parallel()
	type info = map[string]string
	start := time.Now()
	for _, test := range []struct {
		before, after info
		severity      Severity
		value         string
	}{
		{
			info{"used_cpu_user": "9", "used_cpu_sys": "9", "used_cpu_user_main_thread": "1.5", "used_cpu_sys_main_thread": "0.5"},
			info{"used_cpu_user": "19", "used_cpu_sys": "19", "used_cpu_user_main_thread": "2.5", "used_cpu_sys_main_thread": "1"},
			OK, "the main thread used 75% of a CPU for a second",
		},
		{
			info{"used_cpu_user": "9", "used_cpu_sys": "9"}, info{"used_cpu_user": "10", "used_cpu_sys": "9.6"}, // as of Redis 6.0
			Warning, "all threads together used 80% of a CPU for a second",
		},
		{info{}, info{"used_cpu_user": "10"}, Note, "unknown"},
		{info{"used_cpu_user": "10"}, info{}, Note, "unknown"},
	} {
		got := checkLoad(usage{at: start, cpu: test.before}, usage{at: start.Add(2 * time.Second), cpu: test.after})
		if got.Severity != test.severity || got.Text != test.value {
			t.Errorf("%v, %v: %s %q, want %s %q", test.before, test.after, got.Severity, got.Text, test.severity, test.value)
		}
	}
}

// TestLoad: a busy server uses more CPU than an idle one. How much it gets is the machine's affair:
// beside many other programs a thread that never rests may get less than a tenth.
func TestLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	busy := func() (percent float64) {
		findings := examined(t, client).Nodes[0].Findings
		i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == "load" })
		if i < 0 {
			return -1 // the machine stood still for so long that the server seemed silent
		}
		text := findings[i].Text
		if _, err := fmt.Sscanf(text, "the main thread used %f%% of a CPU for a second", &percent); err != nil {
			t.Errorf("finding = %q: %v", text, err)
		}
		return percent
	}
	redistest.Eventually(t, "the server is idle", func() bool { percent := busy(); return percent >= 0 && percent < 4 })
	for range 2 { // one call waits while the other one runs, so the server never rests
		other := server.Client(t)
		during(t, time.Millisecond, func() {
			other.Do(context.Background(), other.B().Eval().Script("for i = 1, 1000000 do end").Numkeys(0).Build())
		})
	}
	redistest.Eventually(t, "the server is busy", func() bool { return busy() > 6 })
}

// TestConnections: clients that connect for each call, and clients that are rejected.
func TestConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Args: []string{"--maxclients", "30"}})
	client := server.Client(t)
	want := func(severity Severity, code, text string) {
		t.Helper()
		var got Finding
		redistest.Eventually(t, code, func() bool {
			got = found(t, client, "connections")
			return got.Code == code
		})
		if got.Severity != severity || !strings.Contains(got.Text, text) {
			t.Errorf("finding = %+v, want %s with %q", got, severity, text)
		}
	}
	dial := func() net.Conn {
		c, err := net.Dial("unix", server.Addr())
		if err != nil {
			t.Error(err)
			return nil
		}
		return c
	}
	want(OK, "ok", ", none rejected")

	t.Run("many", func(t *testing.T) {
		during(t, 2*time.Millisecond, func() {
			if c := dial(); c != nil {
				_ = c.Close()
			}
		})
		want(Warning, "many_connections", " new a second")
	})

	t.Run("rejecting", func(t *testing.T) {
		// More than there may be, again and again: in between, the doctor can connect anew.
		during(t, 100*time.Millisecond, func() {
			for range 40 {
				if c := dial(); c != nil {
					defer func() { _ = c.Close() }()
				}
			}
		})
		want(Warning, "rejecting", " of them now")
	})
	want(Note, "rejected", " since the server started")
}
