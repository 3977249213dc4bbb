package scatter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// ledger stands for the servers: it records the writes of sessions, each
// flight once.
type ledger struct {
	mu    sync.Mutex
	done  map[*flight]bool
	sums  map[string]int64
	calls int
	fail  func(call int, s *Session) error // asked before anything is written
	lose  bool                             // whether replies are lost
}

func (l *ledger) send(_ context.Context, s *Session) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if s.sent == nil {
		s.sent = &flight{batch: s.batch}
	}
	if l.fail != nil {
		if err := l.fail(l.calls, s); err != nil {
			return err
		}
	}
	if l.done == nil {
		l.done, l.sums = map[*flight]bool{}, map[string]int64{}
	}
	if !l.done[s.sent] {
		l.done[s.sent] = true
		for _, o := range s.ops() {
			l.sums[o.key] += o.sum
		}
	}
	if l.lose {
		return errors.New("the reply is lost")
	}
	return nil
}

func (l *ledger) want(t *testing.T, calls int, sums map[string]int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls != calls {
		t.Errorf("calls = %d, want %d", l.calls, calls)
	}
	if diff := cmp.Diff(sums, l.sums); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}

// tallyOn returns a tally that sends to a ledger. Its log is for the test.
func tallyOn(t *testing.T, l *ledger, cfg TallyConfig) (*Tally, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	sc, err := New(nowhere(3), Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tally, err := sc.tally(cfg, l.send)
	if err != nil {
		t.Fatal(err)
	}
	return tally, log
}

func add(t *testing.T, tally *Tally, key string, n int64) {
	t.Helper()
	if err := tally.Add(key, n); err != nil {
		t.Fatal(err)
	}
}

// TestTallyWritesSums: many additions are one call each time, and nothing is sent where
// nothing was added.
func TestTallyWritesSums(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		tally, _ := tallyOn(t, l, TallyConfig{})
		for range 1000 {
			add(t, tally, "a", 1)
			add(t, tally, "b", -2)
		}
		l.want(t, 0, nil)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		l.want(t, 1, map[string]int64{"a": 1000, "b": -2000})
		time.Sleep(time.Minute)
		l.want(t, 1, map[string]int64{"a": 1000, "b": -2000})
		add(t, tally, "a", 1)
		if err := tally.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.want(t, 2, map[string]int64{"a": 1001, "b": -2000})
		wantError(t, tally.Add("a", 1), millrace.ErrBadArgument)
		if err := tally.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// TestTallyRepeats: a failed bundle is repeated as it was, whether it was written or not,
// and later additions go in another one.
func TestTallyRepeats(t *testing.T) {
	t.Parallel()
	for _, lose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{lose: lose}
			if !lose {
				l.fail = func(int, *Session) error { return errors.New("the server is dead") }
			}
			tally, log := tallyOn(t, l, TallyConfig{Every: time.Second})
			for range 10 {
				add(t, tally, "a", 1)
				time.Sleep(time.Second)
				synctest.Wait()
			}
			l.mu.Lock()
			l.fail, l.lose = nil, false
			l.mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
			l.want(t, 1+2+3+4+5+6+7+8+9+10+10, map[string]int64{"a": 10})
			if n := strings.Count(log.String(), "cannot be written"); n != 1 || !strings.Contains(log.String(), "written again") {
				t.Errorf("log = %q, want one warning and its end", log)
			}
			if err := tally.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTallyIsBounded: where nothing can be written, no more counters are taken than may
// wait, and those that wait are added to.
func TestTallyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fail: func(int, *Session) error { return errors.New("the server is dead") }}
		tally, _ := tallyOn(t, l, TallyConfig{Every: time.Second, Most: 3})
		add(t, tally, "a", 1)
		add(t, tally, "b", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		add(t, tally, "a", 10) // beside the flush that failed
		wantError(t, tally.Add("b", 10), millrace.ErrFull)
		wantError(t, tally.AddFloat("a", 1), millrace.ErrFull)
		add(t, tally, "a", 10)
		err := tally.Close(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "3 counters could not be written") {
			t.Errorf("Close = %v, want the number of counters", err)
		}
		l.mu.Lock()
		l.fail = nil
		l.mu.Unlock()
		if err := tally.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		l.want(t, 1+2+2, map[string]int64{"a": 21, "b": 1})
	})
}

// TestTallyDropsWhatIsRefused: one counter that cannot be written does not keep the
// others from it.
func TestTallyDropsWhatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{fail: func(_ int, s *Session) error {
			for _, o := range s.ops() {
				if o.key == "bad" {
					return ErrType.Errorf("the key %q holds something else", o.key)
				}
			}
			return nil
		}}
		tally, log := tallyOn(t, l, TallyConfig{})
		want := map[string]int64{}
		for i := range 2500 {
			key := fmt.Sprint("k", i)
			add(t, tally, key, int64(i))
			want[key] = int64(i)
		}
		add(t, tally, "bad", 77)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		l.mu.Lock()
		if diff := cmp.Diff(want, l.sums); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
		l.mu.Unlock()
		if !strings.Contains(log.String(), "key=bad kind=add add=77") {
			t.Errorf("log = %q, want what was dropped", log)
		}
		if err := tally.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestTallyTakesWhatItCanHave: an invalid argument changes nothing.
func TestTallyTakesWhatItCanHave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		tally, _ := tallyOn(t, l, TallyConfig{})
		add(t, tally, "a", math.MaxInt64)
		wantError(t, tally.Add("a", 1), ErrOverflow)
		wantError(t, tally.Add("", 1), millrace.ErrBadName)
		wantError(t, tally.Add("mr:x", 1), millrace.ErrBadName)
		wantError(t, tally.AddFloat("x", math.NaN()), millrace.ErrBadArgument)
		_, err := tally.In(Bucket{Every: 1})
		wantError(t, err, millrace.ErrBadArgument)
		if err := tally.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.want(t, 1, map[string]int64{"a": math.MaxInt64})
	})
	sc := scatterOver(t, nowhere(1), Config{})
	for _, cfg := range []TallyConfig{{Every: -1}, {Most: -1}} {
		_, err := sc.Tally(cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
}

// TestTallyOnServers adds from several goroutines while replies are lost.
func TestTallyOnServers(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	sc, proxies := throughProxies(t, servers, Config{Timeout: time.Second})
	tally, err := sc.Tally(TallyConfig{Every: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	daily, err := tally.In(Bucket{Every: 24 * time.Hour, At: noon, Keep: 100 * 365 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var adders sync.WaitGroup
	var added atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	for range 3 {
		adders.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				add(t, tally, fmt.Sprint("n", i%3), 1)
				add(t, daily, "daily", 2)
				if err := tally.AddFloat("x", 0.5); err != nil {
					t.Error(err)
				}
				added.Add(1)
			}
		})
	}
	for range 5 {
		var lost []*redistest.Fault
		for _, p := range proxies {
			lost = append(lost, p.DropReply(redistest.Named("EVALSHA")))
		}
		redistest.Eventually(t, "a reply is lost", func() bool { return lost[0].Count()+lost[1].Count()+lost[2].Count() > 0 })
	}
	stop()
	adders.Wait()
	redistest.Eventually(t, "all is written", func() bool { return tally.Close(t.Context()) == nil })

	sum := func(keys ...string) (sum float64) {
		t.Helper()
		for _, one := range servers {
			for _, key := range keys {
				if value := text(t, one.Client(t), "GET", key); value != "" {
					x, err := strconv.ParseFloat(value, 64)
					if err != nil {
						t.Error(err)
					}
					sum += x
				}
			}
		}
		return sum
	}
	n := float64(added.Load())
	if got := sum("n0", "n1", "n2"); got != n {
		t.Errorf("sum = %v, want %v", got, n)
	}
	if got := sum("daily:1714521600"); got != 2*n {
		t.Errorf("sum of the day = %v, want %v", got, 2*n)
	}
	if got := sum("x"); got != 0.5*n {
		t.Errorf("sum of the halves = %v, want %v", got, 0.5*n)
	}
}
