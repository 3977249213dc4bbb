package failover

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/retry"
)

// TestAPoweredOffNodeIsReplaced within five seconds by the settings of a development
// fleet: connections to it are silent, and new ones are not refused but hang.
func TestAPoweredOffNodeIsReplaced(t *testing.T) {
	w := start(t, devfleet.Config{Partitions: 1, Settings: directory.Settings{ViewTTL: directory.DefaultViewTTL}})
	var off atomic.Pointer[string] // the address that is silent
	option := rueidis.ClientOption{DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if silent := off.Load(); silent != nil && *silent == addr {
			ctx, cancel := context.WithTimeout(ctx, d.Timeout)
			defer cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
		return d.DialContext(ctx, "tcp", addr)
	}}
	members := NewRedis(option)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = New(w.dir, members, Config{Interval: 250 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	})
	t.Cleanup(func() { stop(); running.Wait(); members.Close() })
	f := w.client(fleet.Config{Option: option})
	w.settled(f, 0)
	c := f.Client()
	set := func() error { return c.Do(ctx, c.B().Set().Key("{a}").Value("x").Build()).Error() }
	must(t, retry.Policy{}.Do(ctx, func(int) error { return set() }))

	victim := w.server(w.mapNow().Partitions[0].Master.Addr)
	off.Store(&victim.Addr)
	must(t, victim.Proc.Pause())
	began := time.Now()
	must(t, retry.Policy{Timeout: 20 * time.Second}.Do(ctx, func(int) error { return set() }))
	took := time.Since(began)
	t.Logf("writes go on after %v", took)
	if took > 5*time.Second {
		t.Errorf("writes go on after %v, want 5 s at most", took)
	}
	must(t, victim.Proc.Resume())
}
