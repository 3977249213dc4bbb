package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

// unfenced are settings under which the fence never closes.
var unfenced = directory.Settings{ViewTTL: time.Hour, ReplyTimeout: time.Hour, PlacementTTL: time.Hour}

// patient has connections wait for a server that hangs.
var patient = rueidis.ClientOption{ConnWriteTimeout: time.Minute}

// replace makes the replica of partition 0 its master, as an agent does when the
// grace is over.
func (tf *testFleet) replace(grace time.Duration) {
	tf.t.Helper()
	tf.change(func(m *directory.Map) { m.Partitions[0].ReadOnly = true })
	if !retry.Sleep(tf.t.Context(), grace) { // the protocol is to wait
		tf.t.Fatal("the test has ended")
	}
	tf.promote()
}

// promote makes the replica of partition 0 its master at once, on the server and in the map.
func (tf *testFleet) promote() {
	tf.t.Helper()
	c := tf.copies[0][0].Client(tf.t)
	must(tf.t, c.Do(tf.t.Context(), c.B().Replicaof().No().One().Build()).Error())
	tf.change(func(m *directory.Map) {
		p := &m.Partitions[0]
		p.ReadOnly = false
		p.Epoch++
		p.Master, p.Replicas = p.Replicas[0], nil
	})
}

// TestStoppedMasterConfirmsNothing stops a master while writes are in progress, replaces it,
// and resumes it: it runs its commands, answers, and all of these writes are lost. No client
// may take one of these answers for a success.
func TestStoppedMasterConfirmsNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		settings directory.Settings
		lost     bool
	}{
		{"with the fence", quick, false},
		{"without", unfenced, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 1, tc.settings)
			f := tf.open(Config{Option: patient})
			c, ctx := f.Client(), t.Context()
			must(t, put(ctx, c, "{a}", "placed"))
			tf.masters[0].Pause()
			var acknowledged, late atomic.Int64
			var writing sync.WaitGroup
			began := make(chan struct{}, 200)
			for i := range 200 {
				writing.Go(func() {
					began <- struct{}{}
					switch err := set(ctx, c, fmt.Sprintf("{a}%d", i), "x"); {
					case err == nil:
						acknowledged.Add(1)
					case errors.Is(err, millrace.ErrUncertain):
						late.Add(1)
					}
				})
			}
			for range 200 {
				<-began
			}
			tf.replace((&directory.Map{Settings: quick}).Grace())
			tf.masters[0].Resume()
			writing.Wait()
			kept := tf.copies[0][0].Client(t)
			have, err := kept.Do(ctx, kept.B().Dbsize().Build()).AsInt64()
			must(t, err)
			if have > 10 {
				t.Fatalf("the new master has %d keys: it was given what the old one was to lose", have)
			}
			if got := acknowledged.Load(); (got > 0) != tc.lost {
				t.Errorf("%d writes were acknowledged and lost, %d uncertain; want some: %v", got, late.Load(), tc.lost)
			}
		})
	}
}

// TestStaleViewWritesNothing cuts a client off from the directory, not from the
// master, which is replaced meanwhile. The old master takes writes for ever.
func TestStaleViewWritesNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		settings directory.Settings
		want     error
	}{
		{"with the fence", quick, ErrReadOnly},
		{"without", unfenced, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 1, tc.settings)
			proxy := redistest.NewTCPProxy(t, tf.dirs.Addr())
			f := tf.openBy(tf.dial(proxy.Addr()), Config{})
			c, ctx := f.Client(), t.Context()
			must(t, put(ctx, c, "{a}", "before"))
			proxy.Refuse(true)
			proxy.Cut()
			tf.replace((&directory.Map{Settings: quick}).Grace())
			err := set(ctx, c, "{a}", "after")
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("a write by a client that was cut off = %v, want %v", err, tc.want)
			}
			if got, err := get(ctx, c, "{a}"); err != nil || got == "" {
				t.Errorf("a read by a client that was cut off = %q, %v, want what it can get", got, err)
			}
			if tc.want == nil {
				return // its view is good for an hour
			}
			proxy.Heal()
			redistest.Eventually(t, "it takes writes again by itself, where they last", func() bool {
				return set(ctx, c, "{a}", "healed") == nil && f.view.Load().m.Partitions[0].Epoch == 2
			})
			must(t, put(ctx, c, "{a}", "healed"))
			if got, err := get(ctx, tf.copies[0][0].Client(t), "{a}"); err != nil || got != "healed" {
				t.Errorf("the new master has %q, %v, want healed", got, err)
			}
		})
	}
}

// TestDirectoryIsAway kills the directory: the fleet is read-only once the view is
// old, not before, and takes writes again when the directory is back.
func TestDirectoryIsAway(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	f := tf.open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}", "x"))
	f.refresh(ctx)
	began := time.Now()
	tf.dirs.Kill()
	if err := set(ctx, c, "{a}", "y"); err != nil && time.Since(began) < quick.ViewTTL/2 {
		t.Errorf("a write by a fresh view = %v after %v, want none", err, time.Since(began))
	}
	redistest.Eventually(t, "writes are refused", func() bool { return errors.Is(set(ctx, c, "{a}", "z"), ErrReadOnly) })
	if took := time.Since(began); took < quick.ViewTTL/2 {
		t.Errorf("writes were refused after %v, before the view was old", took)
	}
	if got, err := get(ctx, c, "{a}"); err != nil || got == "" {
		t.Errorf("GET = %q, %v, want a value: reads go on", got, err)
	}
	status, err := f.Status(ctx)
	must(t, err)
	for _, p := range status.Partitions {
		if p.State != ReadOnly || p.Master.State != Up {
			t.Errorf("partition %d is %s, its master %s; want it read-only and the master up", p.ID, p.State, p.Master.State)
		}
	}
	wantError(t, set(ctx, c, "{never seen}", "x"), ErrReadOnly)
	if _, err := get(ctx, c, "{never seen}"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("GET of a tag that nobody can be sure not to exist = %v, want ErrUnavailable", err)
	}
	tf.dirs.Restart()
	redistest.Eventually(t, "writes are taken again", func() bool { return set(ctx, c, "{b}", "x") == nil })
}

// TestSilentDirectoryIsWaitedOut freezes the directory until the view is old, and for
// longer than it is asked at once: a structure's call takes longer then, and does not
// fail.
func TestSilentDirectoryIsWaitedOut(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	structure := &script.Runner{Client: f.Client(), Scripts: script.Load(fstest.MapFS{
		"incr.lua": {Data: []byte("-- test.incr(K) -> number of keys\n-- Touches  K, other\nredis.call('INCR', K)\nreturn #KEYS")},
	}, "K:")}
	tf.dirs.Pause()
	defer tf.dirs.Resume()
	redistest.Eventually(t, "writes are refused", func() bool { return errors.Is(set(t.Context(), f.Client(), "{a}", "y"), ErrReadOnly) })
	time.AfterFunc(4*quick.ViewTTL, tf.dirs.Resume)
	reply, err := structure.Run(t.Context(), "incr", "{a}n")
	must(t, err)
	if n := reply.Int(); n != 1 {
		t.Errorf("a script on a fleet was given %d keys, want the base key alone", n)
	}
}

// TestEpochsNeverGoBack gives the directory an old map.
func TestEpochsNeverGoBack(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}", "x"))
	d := tf.dirs.Client(t)
	const key = "mr:fleet:{directory}"
	old, err := d.Do(ctx, d.B().Hgetall().Key(key).Build()).AsStrMap()
	must(t, err)
	tf.change(func(m *directory.Map) { m.Partitions[0].Epoch++ })
	redistest.Eventually(t, "the client has the new map", func() bool { return f.view.Load().m.Epoch == 2 })
	must(t, d.Do(ctx, d.B().Hset().Key(key).FieldValue().FieldValue("epoch", old["epoch"]).FieldValue("map", old["map"]).Build()).Error())
	redistest.Eventually(t, "writes are refused", func() bool { return errors.Is(set(ctx, c, "{a}", "y"), ErrReadOnly) })
	if got := f.view.Load().m.Epoch; got != 2 {
		t.Errorf("the client went back to epoch %d", got)
	}
}

// throughProxies is a fleet of one partition whose master is reached through a
// proxy.
func throughProxies(t *testing.T, settings directory.Settings) (*testFleet, *redistest.Proxy) {
	t.Helper()
	tf := &testFleet{t: t, dirs: redistest.Durable(t)}
	tf.dir = tf.dial(tf.dirs.Addr())
	partitions := tf.servers(1, 0)
	proxy := redistest.NewTCPProxy(t, partitions[0].Master.Addr)
	partitions[0].Master.Addr = proxy.Addr()
	_, err := grow.Init(t.Context(), tf.dir, partitions, grow.Config{Settings: settings, RestartTimeout: -1})
	must(t, err)
	return tf, proxy
}

// TestLostRepliesAreUncertain: a write whose reply was lost is not repeated, and its caller
// is told that the outcome is unknown.
func TestLostRepliesAreUncertain(t *testing.T) {
	t.Parallel()
	tf, proxy := throughProxies(t, quick)
	f := tf.open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}n", "0"))
	proxy.DropReply(redistest.Named("INCR"))
	wantError(t, c.Do(ctx, c.B().Incr().Key("{a}n").Build()).Error(), millrace.ErrUncertain)
	redistest.Eventually(t, "the connection is there again", func() bool {
		got, err := get(ctx, c, "{a}n")
		if err == nil && got != "1" {
			t.Fatalf("{a}n = %q, want 1: done once", got)
		}
		return err == nil
	})

	proxy.DropReply(redistest.Named("INCR"))
	results := c.DoMulti(ctx, c.B().Set().Key("{a}m").Value("x").Build(), c.B().Incr().Key("{a}n").Build())
	wantError(t, results[1].Error(), millrace.ErrUncertain)
}

// TestLateRepliesAreUncertain: the command was run, but perhaps by a master that had been
// replaced.
func TestLateRepliesAreUncertain(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.PlacementTTL = time.Hour
	tf, proxy := throughProxies(t, settings)
	f := tf.open(Config{Option: patient})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}", "x"))
	proxy.Delay(2 * quick.ReplyTimeout)
	wantError(t, set(ctx, c, "{a}", "y"), millrace.ErrUncertain)
	results := c.DoMulti(ctx, c.B().Set().Key("{a}").Value("z").Build(), c.B().Get().Key("{a}").Build())
	wantError(t, results[0].Error(), millrace.ErrUncertain)
	if got, err := get(ctx, c, "{a}"); err != nil || got != "z" {
		t.Errorf("GET = %q, %v, want z: a read may be late", got, err)
	}
	proxy.Delay(0)
	must(t, put(ctx, c, "{a}", "x"))
}

// TestBlockingCommands may take as long as they block.
func TestBlockingCommands(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, 0, quick).open(Config{})
	c, ctx := f.Client(), t.Context()
	block := 3 * quick.ReplyTimeout
	err := c.Do(ctx, c.B().Blpop().Key("{a}").Timeout(block.Seconds()).Build()).Error()
	if !rueidis.IsRedisNil(err) {
		t.Errorf("BLPOP of nothing = %v, want nil after its time", err)
	}
}

// TestWaitReplicas: a success is on a replica.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.ReplyTimeout = 4 * time.Second // a busy machine's replica takes its time
	tf := startFleet(t, 1, 1, settings)
	f := tf.open(Config{WaitReplicas: 1})
	c, ctx := f.Client(), t.Context()
	must(t, set(ctx, c, "{a}", "x"))
	other := tf.open(Config{WaitReplicas: 1}).Client()
	must(t, set(ctx, other, "{a}", "x"))
	if got, err := get(ctx, tf.copies[0][0].Client(t), "{a}"); err != nil || got != "x" {
		t.Errorf("the replica has %q, %v, want x at once", got, err)
	}
	tf.copies[0][0].Pause()
	wantError(t, set(ctx, c, "{a}", "y"), millrace.ErrUncertain)
	results := c.DoMulti(ctx, c.B().Set().Key("{a}1").Value("y").Build(), c.B().Set().Key("{a}2").Value("y").Build())
	wantError(t, results[0].Error(), millrace.ErrUncertain)
	wantError(t, results[1].Error(), millrace.ErrUncertain)
	// A command that changes nothing may show the writes of others: a success would confirm y.
	wantError(t, other.Do(ctx, other.B().Setnx().Key("{a}").Value("z").Build()).Error(), millrace.ErrUncertain)
	tf.copies[0][0].Resume()
	redistest.Eventually(t, "writes are confirmed again", func() bool { return set(ctx, c, "{a}", "z") == nil })

	two := tf.open(Config{WaitReplicas: 2})
	wantError(t, set(ctx, two.Client(), "{a}", "x"), millrace.ErrUncertain)
}

// TestStrangersDoNotCount: a replica that is not in the map confirms nothing, however fast
// it is, and delays no caller.
func TestStrangersDoNotCount(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.ReplyTimeout = 4 * time.Second // a busy machine's replica takes its time
	tf := startFleet(t, 1, 1, settings)
	stranger := redistest.Start(t, redistest.Options{TCP: true})
	s, ctx := stranger.Client(t), t.Context()
	host, port, err := net.SplitHostPort(tf.masters[0].Addr())
	must(t, err)
	must(t, s.Do(ctx, s.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
	redistest.Eventually(t, "the stranger is in step", func() bool { return stranger.Info("replication")["master_link_status"] == "up" })
	f := tf.open(Config{WaitReplicas: 1})
	c := f.Client()
	must(t, put(ctx, c, "{a}", "x"))
	d, cancel := c.Dedicate()
	defer cancel()

	tf.copies[0][0].Pause()
	for name, do := range map[string]doer{"client": c, "dedicated": d} {
		err := do.Do(ctx, c.B().Set().Key("{a}").Value(name).Build()).Error()
		if !errors.Is(err, millrace.ErrUncertain) || !strings.Contains(err.Error(), stranger.Addr()) {
			t.Errorf("%s: a write that only a stranger has = %v, want it uncertain, and %s named", name, err, stranger.Addr())
		}
	}
	tf.copies[0][0].Resume()
	redistest.Eventually(t, "writes are confirmed again", func() bool { return set(ctx, c, "{a}", "y") == nil })
	stranger.Pause()
	must(t, set(ctx, c, "{a}", "z"))
	stranger.Resume()
}

// TestCancelledCallsReturn even from a server that hangs.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{Option: patient})
	c := f.Client()
	must(t, put(t.Context(), c, "{a}", "x"))
	tf.masters[0].Pause()
	defer tf.masters[0].Resume()
	for name, call := range map[string]func(ctx context.Context) error{
		"write":      func(ctx context.Context) error { return set(ctx, c, "{a}", "y") },
		"read":       func(ctx context.Context) error { _, err := get(ctx, c, "{a}"); return err },
		"a new tag":  func(ctx context.Context) error { return set(ctx, c, "{b}", "y") },
		"read a new": func(ctx context.Context) error { _, err := get(ctx, c, "{c}"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		if err == nil || time.Since(began) > time.Second {
			t.Errorf("%s: %v after %v, want an error soon after the context's end", name, err, time.Since(began))
		}
	}
}

// TestClosed refuses everything.
func TestClosed(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{})
	c, ctx := f.Client(), t.Context()
	must(t, put(ctx, c, "{a}", "x"))
	c.Close()
	f.Close()
	if err := set(ctx, c, "{a}", "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("a write after Close = %v, want ErrClosed", err)
	}
	if _, err := get(ctx, c, "{a}"); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after Close = %v, want ErrClosed", err)
	}
}

// TestWaitingForTooFew is refused: a failover would count on more.
func TestWaitingForTooFew(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.Confirmed = 2
	tf := startFleet(t, 1, 0, settings)
	_, err := Open(t.Context(), tf.dir, Config{WaitReplicas: 1})
	wantError(t, err, millrace.ErrBadArgument)
	tf.open(Config{WaitReplicas: 2})
	tf.open(Config{})
}
