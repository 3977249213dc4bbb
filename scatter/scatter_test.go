package scatter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	ok := Server{Client: client}
	for name, tt := range map[string]struct {
		servers []Server
		cfg     Config
		err     error
	}{
		"no server":     {nil, Config{}, millrace.ErrBadArgument},
		"no way":        {[]Server{{Name: "a"}}, Config{}, millrace.ErrBadArgument},
		"two of a name": {[]Server{{Name: "a", Client: client}, {Name: "a", Client: client}}, Config{}, millrace.ErrBadArgument},
		"a brace":       {[]Server{{Name: "a{", Client: client}}, Config{}, millrace.ErrBadName},
		"a long name":   {[]Server{{Name: strings.Repeat("n", maxName+1), Client: client}}, Config{}, millrace.ErrBadName},
		"group":         {[]Server{ok}, Config{Group: "a}"}, millrace.ErrBadName},
		"timeout":       {[]Server{ok}, Config{Timeout: -1}, millrace.ErrBadArgument},
		"members":       {[]Server{ok}, Config{MaxMembers: -1}, millrace.ErrBadArgument},
	} {
		if _, err := New(tt.servers, tt.cfg); !errors.Is(err, tt.err) {
			t.Errorf("%s: error = %v, want %v", name, err, tt.err)
		}
	}
	sc := scatterOver(t, append(Clients(client, client), nowhere(1)[0]), Config{})
	for i, want := range []string{"0", "1", "s0"} {
		if got := sc.servers[i].Name; got != want {
			t.Errorf("name = %q, want %q", got, want)
		}
	}
	sc = scatterOver(t, []Server{{Option: rueidis.ClientOption{InitAddress: []string{"h:1"}}}}, Config{})
	if got := sc.servers[0].Name; got != "h:1" {
		t.Errorf("name = %q, want the address", got)
	}
}

// TestCancelledBeforeTheConnectionStands: a caller whose context ends does not wait for
// a server that takes connections and says nothing.
func TestCancelledBeforeTheConnectionStands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	best := time.Hour
	for range 3 {
		sc, err := New([]Server{{Option: optionOf(server)}}, Config{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		server.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled time.Time
		time.AfterFunc(10*time.Millisecond, func() {
			cancelled = time.Now()
			cancel()
		})
		s := sc.Session("x")
		s.Add("n", 1)
		wantError(t, s.Flush(ctx), context.Canceled)
		best = min(best, time.Since(cancelled))
		server.Resume()
		if err := s.Flush(t.Context()); err != nil {
			t.Errorf("Flush of a server that answers again: %v", err)
		}
		sc.Close()
		s.Add("n", 1)
		wantError(t, s.Flush(t.Context()), rueidis.ErrClosing)
	}
	if best > 50*time.Millisecond {
		t.Errorf("a call returns %v after its cancel, more than 50 ms", best)
	}
	if got := text(t, server.Client(t), "GET", "n"); got != "3" {
		t.Errorf("sum = %s, want 3", got)
	}
}

// TestServersComeLater: a server that could not be reached at first is reached when it
// runs. After Close nothing connects.
func TestServersComeLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	sc := scatterOver(t, []Server{{Name: "late", Option: optionOf(server)}}, Config{Timeout: 100 * time.Millisecond})
	s := sc.Session("x")
	s.Add("n", 1)
	if err := s.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "server late") {
		t.Errorf("error = %v, want one that names the server", err)
	}
	server.Restart()
	redistest.Eventually(t, "it is flushed", func() bool { return s.Flush(t.Context()) == nil })
	sc.Close()
	s.Add("n", 1)
	wantError(t, s.Flush(t.Context()), rueidis.ErrClosing)
	if got := text(t, server.Client(t), "GET", "n"); got != "1" {
		t.Errorf("sum = %s, want 1", got)
	}

	closed := scatterOver(t, []Server{{Option: optionOf(server)}}, Config{})
	closed.Close()
	s = closed.Session("x")
	s.Add("n", 1)
	wantError(t, s.Flush(t.Context()), rueidis.ErrClosing)
}
