package members

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

func TestSingle(t *testing.T) {
	t.Parallel()
	type limits struct{ Dial, KeepAlive, Silence time.Duration }
	said := rueidis.ClientOption{
		Username: "user", Password: "secret", TLSConfig: &tls.Config{ServerName: "name"},
		InitAddress: []string{"other:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}, ConnWriteTimeout: time.Minute,
	}
	for _, c := range []struct {
		option rueidis.ClientOption
		want   limits
	}{
		{rueidis.ClientOption{}, limits{2 * time.Second, 2 * time.Second, 3 * time.Second}},
		{said, limits{2 * time.Second, 2 * time.Second, time.Minute}},
	} {
		got := Single(c.option, "this:1", 2*time.Second, 3*time.Second)
		if diff := cmp.Diff(c.want, limits{got.Dialer.Timeout, got.Dialer.KeepAlive, got.ConnWriteTimeout}); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"this:1"}, got.InitAddress); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		if !got.ForceSingleClient || !got.DisableRetry || got.Sentinel.MasterSet != "" {
			t.Errorf("Single = %+v, want one server, asked once", got)
		}
		if got.Username != c.option.Username || got.Password != c.option.Password || got.TLSConfig != c.option.TLSConfig {
			t.Errorf("Single = %+v, want the credentials of %+v", got, c.option)
		}
	}
}

func id(ctx context.Context, c rueidis.Client) (int64, error) {
	return c.Do(ctx, c.B().ClientId().Build()).ToInt64()
}

// Concurrent callers share one connection, which is kept, and a server that
// was away is asked again.
func TestPoolKeepsConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	addr := server.Addr()
	p := New(rueidis.ClientOption{}, time.Second)
	defer p.Close()
	server.Kill()
	if _, err := Ask(t.Context(), p, addr, id); err == nil {
		t.Error("a dead server answers")
	}
	server.Restart()
	ids := make(chan int64)
	for range 8 {
		go func() {
			got, err := Ask(t.Context(), p, addr, id)
			if err != nil {
				t.Error(err)
			}
			ids <- got
		}()
	}
	first := <-ids
	for range 7 {
		if got := <-ids; got != first {
			t.Errorf("the connection has id %d, want %d as another caller's", got, first)
		}
	}
}

// A frozen server does not delay a caller whose context ends.
func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	p := New(rueidis.ClientOption{}, time.Minute)
	defer p.Close()
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more time")
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := Ask(ctx, p, server.Addr(), id); !errors.Is(err, why) {
		t.Errorf("Ask = %v, want %v", err, why)
	}
}

func TestClosedPool(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	p := New(rueidis.ClientOption{}, time.Second)
	if _, err := Ask(t.Context(), p, server.Addr(), id); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.Close()
	if _, err := Ask(t.Context(), p, server.Addr(), id); !errors.Is(err, rueidis.ErrClosing) {
		t.Errorf("Ask = %v, want %v", err, rueidis.ErrClosing)
	}
}

// TestClock is that of most members, not that of a process whose clock is ahead: epochs that
// come from it must not be above those that others will give.
func TestClock(t *testing.T) {
	t.Parallel()
	if got := time.Since(Clock(nil)); got.Abs() > time.Minute {
		t.Errorf("the clock of no members is %v behind, want its own", got)
	}
	if got := time.Until(Clock([]time.Duration{-time.Hour, 48 * time.Hour, -time.Hour})); (got + time.Hour).Abs() > time.Minute {
		t.Errorf("the clock is now and %v, want an hour ago, as most members say", got)
	}
}
