package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAReadOnlyPartitionTakesNoWrites from clients whose map is confirmed and says so, although
// its master would take them: it is about to be replaced.
func TestAReadOnlyPartitionTakesNoWrites(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1, 0, calm), t.Context()
	f := tf.open(Config{})
	must(t, put(ctx, f.Client(), "{a}", "before"))
	readOnly := func(on bool) {
		m := tf.change(func(m *directory.Map) { m.Partitions[0].ReadOnly = on })
		redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
	}
	readOnly(true)
	eachDoer(t, f, func(t *testing.T, c doer) {
		wantError(t, c.Do(ctx, c.B().Set().Key("{a}").Value("after").Build()).Error(), ErrReadOnly)
	})
	if got, err := get(ctx, tf.masters[0].Client(t), "{a}"); err != nil || got != "before" {
		t.Errorf("the master has %q, %v, want before", got, err)
	}
	if got, err := get(ctx, f.Client(), "{a}"); err != nil || got != "before" {
		t.Errorf("a read = %q, %v, want before", got, err)
	}
	readOnly(false)
	must(t, set(ctx, f.Client(), "{a}", "again"))
}

// TestDedicatedToAReplacedMaster: the connection of before writes nothing, although it is open,
// and the client's map is confirmed.
func TestDedicatedToAReplacedMaster(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1, 1, calm), t.Context()
	f := tf.open(Config{})
	must(t, put(ctx, f.Client(), "{a}", "x"))
	d, cancel := f.Client().Dedicate()
	defer cancel()
	write := func(value string) error {
		return d.Do(ctx, d.B().Set().Key("{a}").Value(value).Build()).Error()
	}
	must(t, write("before"))
	tf.promote()
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Partitions[0].Epoch == 2 })
	wantError(t, write("after"), ErrUnavailable)
	if got, err := get(ctx, tf.masters[0].Client(t), "{a}"); err != nil || got != "before" {
		t.Errorf("the former master has %q, %v, want before", got, err)
	}
	must(t, set(ctx, f.Client(), "{a}", "elsewhere"))
}

// TestAnotherFleetIsRefused: a directory that has another fleet now, however new its map is,
// confirms nothing.
func TestAnotherFleetIsRefused(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1, 0, quick), t.Context()
	f := tf.open(Config{})
	must(t, put(ctx, f.Client(), "{a}", "x"))
	own := f.view.Load().m.Fleet
	tf.change(func(m *directory.Map) { m.Fleet = "another" })
	redistest.Eventually(t, "writes are refused", func() bool { return errors.Is(set(ctx, f.Client(), "{a}", "y"), ErrReadOnly) })
	if got := f.view.Load().m.Fleet; got != own {
		t.Errorf("the client went over to the fleet %s", got)
	}
	if got, err := get(ctx, f.Client(), "{a}"); err != nil || got == "" {
		t.Errorf("a read = %q, %v, want a value", got, err)
	}
}

// TestLateConfirmationsAreUncertain: replicas that confirm a write late may follow a master that
// was replaced meanwhile.
func TestLateConfirmationsAreUncertain(t *testing.T) {
	t.Parallel()
	settings := calm
	settings.ReplyTimeout = 2 * time.Second
	tf := startFleet(t, 1, 1, settings)
	proxy := redistest.NewTCPProxy(t, tf.masters[0].Addr())
	option := patient
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if addr == tf.masters[0].Addr() {
			addr = proxy.Addr()
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	f := tf.open(Config{Option: option, WaitReplicas: 1})
	c := f.Client()
	must(t, put(t.Context(), c, "{a}", "x"))
	for name, delay := range map[string]time.Duration{"in time": 0, "late": settings.ReplyTimeout * 5 / 4} {
		proxy.Delay(delay)
		err := set(t.Context(), c, "{a}", name)
		if late := delay > 0; late != errors.Is(err, millrace.ErrUncertain) || !late && err != nil {
			t.Errorf("a write that was confirmed %s = %v, want it uncertain: %v", name, err, late)
		}
	}
}

// halfSilent is a store that at times has only old values.
type halfSilent struct {
	directory.Store

	silent atomic.Bool
}

func (s *halfSilent) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	if s.silent.Load() && read == directory.Present {
		return nil, errors.New("the directory confirms nothing")
	}
	return s.Store.Get(ctx, read, names...)
}

// TestAMapThatIsOnlyRead: a map that the directory has not confirmed is good for reads, however
// new it is.
func TestAMapThatIsOnlyRead(t *testing.T) {
	t.Parallel()
	tf, ctx := startFleet(t, 1, 0, calm), t.Context()
	store := &halfSilent{Store: tf.dir.Store}
	f := tf.openBy(directory.New(store), Config{})
	must(t, put(ctx, f.Client(), "{a}", "before"))
	store.silent.Store(true)
	m := tf.change(func(*directory.Map) {})
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
	wantError(t, set(ctx, f.Client(), "{a}", "after"), ErrReadOnly)
	if got, err := get(ctx, f.Client(), "{a}"); err != nil || got != "before" {
		t.Errorf("a read = %q, %v, want before", got, err)
	}
	store.silent.Store(false)
	must(t, put(ctx, f.Client(), "{a}", "again"))
}
