package fleet

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/redis/wake"
	"github.com/millrace/millrace/internal/test/redistest"
)

// doer is a client, or a connection of one's own.
type doer interface {
	B() rueidis.Builder
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
	DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult
}

// eachDoer runs a test with both.
func eachDoer(t *testing.T, f *Fleet, test func(t *testing.T, c doer)) {
	t.Run("client", func(t *testing.T) { test(t, f.Client()) })
	t.Run("dedicated", func(t *testing.T) {
		d, cancel := f.Client().Dedicate()
		defer cancel()
		test(t, d)
	})
}

// whileBlocked calls do as soon as a client is blocked on the server.
func whileBlocked(t *testing.T, s *redistest.Server, do func()) {
	t.Helper()
	redistest.Eventually(t, "a client is blocked", func() bool { return s.Info("clients")["blocked_clients"] == "1" })
	do()
}

func blpop(c doer, block time.Duration) rueidis.Completed {
	return c.B().Blpop().Key("{a}l").Timeout(block.Seconds()).Build()
}

func llen(t *testing.T, s *redistest.Server, key string) int64 {
	t.Helper()
	c := s.Client(t)
	n, err := c.Do(t.Context(), c.B().Llen().Key(key).Build()).AsInt64()
	must(t, err)
	return n
}

// TestBlockingTakesItsTime: an element popped long after the reply limit is delivered,
// whether the command was marked as blocking or not.
func TestBlockingTakesItsTime(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	eachDoer(t, f, func(t *testing.T, c doer) {
		for name, cmd := range map[string]rueidis.Completed{
			"marked":   blpop(c, 30*time.Second),
			"endless":  blpop(c, 0),
			"unmarked": c.B().Arbitrary("BLPOP", "{a}l", "30").Build(),
		} {
			began := time.Now()
			popped := make(chan error, 1)
			var got []string
			go func() {
				var err error
				got, err = c.Do(t.Context(), cmd).AsStrSlice()
				popped <- err
			}()
			whileBlocked(t, tf.masters[0], func() {
				for time.Since(began) < 2*quick.ReplyTimeout { // the test is about this limit
					must(t, set(t.Context(), f.Client(), "{a}", "others go on"))
				}
				m := tf.masters[0].Client(t)
				must(t, m.Do(t.Context(), m.B().Rpush().Key("{a}l").Element("x").Build()).Error())
			})
			if err := <-popped; err != nil || len(got) != 2 || got[1] != "x" {
				t.Errorf("%s: BLPOP = %q, %v, want x", name, got, err)
			}
		}
	})
}

// TestLatePop: an element that was popped in time and arrives late is delivered if the
// directory says that its master is still the one.
func TestLatePop(t *testing.T) {
	t.Parallel()
	tf, proxy := throughProxies(t, quick)
	f := tf.open(Config{Option: patient})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	m := tf.masters[0].Client(t)
	eachDoer(t, f, func(t *testing.T, c doer) {
		must(t, c.Do(t.Context(), c.B().Rpush().Key("{a}l").Element("x").Build()).Error())
		proxy.Delay(2 * quick.ReplyTimeout)
		defer proxy.Delay(0)
		got, err := c.Do(t.Context(), blpop(c, 100*time.Millisecond)).AsStrSlice()
		if err != nil || len(got) != 2 {
			n, _ := m.Do(t.Context(), m.B().Llen().Key("{a}l").Build()).AsInt64()
			t.Errorf("a late BLPOP = %q, %v, and %d elements are left; want x", got, err, n)
		}
	})
}

// TestAReplacedMasterPopsNothing: a pop by a replaced master is no success, however long
// the command was allowed to block, whether the client knows or not.
func TestAReplacedMasterPopsNothing(t *testing.T) {
	t.Parallel()
	for name, cutOff := range map[string]bool{"the client knows": false, "the client is cut off from the directory": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 1, quick)
			proxy := redistest.NewTCPProxy(t, tf.dirs.Addr())
			f := tf.openBy(tf.dial(proxy.Addr()), Config{Option: patient})
			must(t, put(t.Context(), f.Client(), "{a}", "x"))
			d, cancel := f.Client().Dedicate()
			defer cancel()
			popped := make(chan error, 2)
			for _, c := range []doer{f.Client(), d} {
				go func() { popped <- c.Do(t.Context(), blpop(c, 0)).Error() }()
			}
			redistest.Eventually(t, "both are blocked", func() bool { return tf.masters[0].Info("clients")["blocked_clients"] == "2" })
			if cutOff {
				proxy.Refuse(true)
				proxy.Cut()
			}
			pusher, err := net.Dial("tcp", tf.masters[0].Addr())
			must(t, err)
			defer pusher.Close()
			tf.masters[0].Pause()
			_, err = pusher.Write([]byte("RPUSH {a}l old old\r\n"))
			must(t, err)
			tf.replace((&directory.Map{Settings: quick}).Grace())
			if cutOff { // else it does not wait for a server that may never be back
				tf.masters[0].Resume()
			}
			for range 2 {
				wantError(t, <-popped, millrace.ErrUncertain)
			}
			tf.masters[0].Resume()
		})
	}
}

// TestAMasterPopsUntilItIsReplaced: while a failover only begins, the master still runs the
// commands it was sent, and popped elements are delivered.
func TestAMasterPopsUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, calm)
	f := tf.open(Config{})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	eachDoer(t, f, func(t *testing.T, c doer) {
		popped := make(chan error, 1)
		go func() { popped <- c.Do(t.Context(), blpop(c, time.Minute)).Error() }()
		whileBlocked(t, tf.masters[0], func() {
			m := tf.change(func(m *directory.Map) { m.Partitions[0].ReadOnly = true })
			redistest.Eventually(t, "the client knows", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
			server := tf.masters[0].Client(t)
			must(t, server.Do(t.Context(), server.B().Rpush().Key("{a}l").Element("x").Build()).Error())
			must(t, <-popped)
			m = tf.change(func(m *directory.Map) { m.Partitions[0].ReadOnly = false })
			redistest.Eventually(t, "it takes writes again", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
		})
	})
}

// TestPopWhileTheDirectoryIsSilent: a client without news from the directory for long asks it
// before it drops an element.
func TestPopWhileTheDirectoryIsSilent(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f := tf.open(Config{})
	c := f.Client()
	must(t, put(t.Context(), c, "{a}", "x"))
	popped := make(chan error, 1)
	go func() { popped <- c.Do(t.Context(), blpop(c, time.Minute)).Error() }()
	whileBlocked(t, tf.masters[0], func() {
		tf.dirs.Pause()
		p := f.view.Load().partitions[0]
		redistest.Eventually(t, "the view is old", func() bool { return !p.counts() })
		m := tf.masters[0].Client(t)
		must(t, m.Do(t.Context(), m.B().Rpush().Key("{a}l").Element("x").Build()).Error())
		redistest.Eventually(t, "the element is popped", func() bool { return llen(t, tf.masters[0], "{a}l") == 0 })
		tf.dirs.Resume()
		must(t, <-popped)
	})
}

// TestBlockingWaitsForReplicas: a move that blocked is a success only on a replica.
func TestBlockingWaitsForReplicas(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.ReplyTimeout = 4 * time.Second // a busy machine's replica takes its time
	tf := startFleet(t, 1, 1, settings)
	f := tf.open(Config{WaitReplicas: 1})
	must(t, put(t.Context(), f.Client(), "{a}", "x"))
	eachDoer(t, f, func(t *testing.T, c doer) {
		push := c.B().Rpush().Key("{a}l").Element("1", "2", "3").Build().Pin()
		move := c.B().Blmove().Source("{a}l").Destination("{a}m").Left().Right().Timeout(0.01).Build().Pin()
		must(t, c.Do(t.Context(), push).Error())
		must(t, c.Do(t.Context(), move).Error())
		if n := llen(t, tf.copies[0][0], "{a}l"); n != 2 {
			t.Errorf("the replica has %d elements left at once, want 2", n)
		}
		tf.copies[0][0].Pause()
		wantError(t, c.Do(t.Context(), move).Error(), millrace.ErrUncertain)
		wantError(t, c.Do(t.Context(), push).Error(), millrace.ErrUncertain)
		tf.copies[0][0].Resume()
		must(t, c.Do(t.Context(), c.B().Del().Key("{a}l").Build()).Error())
		if err := c.Do(t.Context(), move).Error(); !rueidis.IsRedisNil(err) {
			t.Errorf("BLMOVE of nothing = %v, want nil: there is nothing to confirm", err)
		}
	})
}

// TestWakeUpsNeedNoReplica: an idle consumer of a structure is woken, although its pop is confirmed by no replica. One that
// gets lost costs a second.
func TestWakeUpsNeedNoReplica(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, calm)
	c := tf.open(Config{WaitReplicas: 1}).Client()
	push := c.B().Rpush().Key("{a}:wake").Element("x").Build().Pin()
	must(t, c.Do(t.Context(), push).Error())
	if woken, err := wake.Wait(t.Context(), c, "{a}:wake", time.Second); !woken || err != nil {
		t.Errorf("Wait for a token that is there = %v, %v, want it", woken, err)
	}
	tf.copies[0][0].Pause()
	defer tf.copies[0][0].Resume()
	token := make(chan error, 1)
	go func() {
		woken, err := wake.Wait(t.Context(), c, "{a}:wake", 10*time.Second)
		if !woken && err == nil {
			err = errors.New("not woken")
		}
		token <- err
	}()
	whileBlocked(t, tf.masters[0], func() { wantError(t, c.Do(t.Context(), push).Error(), millrace.ErrUncertain) })
	must(t, <-token)
}

// TestPopsThatCannotBeConfirmed are refused, and nothing is popped.
func TestPopsThatCannotBeConfirmed(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, calm)
	f := tf.open(Config{WaitReplicas: 1})
	must(t, f.Client().Do(t.Context(), f.Client().B().Rpush().Key("{a}l").Element("x").Build()).Error())
	eachDoer(t, f, func(t *testing.T, c doer) {
		err := c.Do(t.Context(), blpop(c, time.Second)).Error()
		if !errors.Is(err, ErrUnsupported) || millrace.Hint(err) == "" {
			t.Errorf("BLPOP = %v (%s), want it refused with a hint", err, millrace.Hint(err))
		}
		results := c.DoMulti(t.Context(), c.B().Set().Key("{a}").Value("x").Build(), blpop(c, time.Second))
		wantError(t, results[0].Error(), ErrUnsupported)
		noack := c.B().Xreadgroup().Group("g", "c").Block(1).Noack().Streams().Key("{a}s").Id(">").Build()
		wantError(t, c.Do(t.Context(), noack).Error(), ErrUnsupported)
		for _, pop := range []string{
			"LPOP {a}l", "rpop {a}l", "LMPOP 1 {a}l LEFT", "ZPOPMIN {a}z", "ZPOPMAX {a}z", "ZMPOP 1 {a}z MIN", "SPOP {a}s", "GETDEL {a}", "HGETDEL {a}h FIELDS 1 f",
			"BLPOP {a}l 1", "BRPOP {a}l 1", "BLMPOP 1 1 {a}l LEFT", "BZPOPMIN {a}z 1", "BZPOPMAX {a}z 1", "BZMPOP 1 1 {a}z MIN",
		} {
			if err := c.Do(t.Context(), c.B().Arbitrary(strings.Fields(pop)...).Build()).Error(); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s = %v, want it refused", pop, err)
			}
		}
		if err := c.Do(t.Context(), c.B().Arbitrary("LMOVE", "{a}l", "{a}l", "LEFT", "RIGHT").Build()).Error(); err != nil {
			t.Errorf("LMOVE = %v", err)
		}
	})
	if n := llen(t, tf.masters[0], "{a}l"); n != 1 {
		t.Errorf("%d elements are left, want 1", n)
	}
}

// TestDedicatedTransactionIsConfirmed by EXEC, not by a command that is only queued.
func TestDedicatedTransactionIsConfirmed(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.ReplyTimeout = 4 * time.Second
	tf := startFleet(t, 1, 1, settings)
	d, cancel := tf.open(Config{WaitReplicas: 1}).Client().Dedicate()
	defer cancel()
	do := func(words ...string) rueidis.RedisResult {
		return d.Do(t.Context(), d.B().Arbitrary(words...).Build())
	}
	must(t, do("SET", "{a}", "0").Error())
	transaction := func() rueidis.RedisResult {
		must(t, do("WATCH", "{a}").Error())
		must(t, do("MULTI").Error())
		must(t, do("INCR", "{a}").Error())
		return do("EXEC")
	}
	if got, err := transaction().AsIntSlice(); err != nil || len(got) != 1 || got[0] != 1 {
		t.Errorf("EXEC = %v, %v, want 1 and no more", got, err)
	}
	tf.copies[0][0].Pause()
	wantError(t, transaction().Error(), millrace.ErrUncertain)
	tf.copies[0][0].Resume()
}
