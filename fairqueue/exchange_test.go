package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestExchange: one call settles deliveries in each way and reads, as handlers of Consume would.
func TestExchange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	idle := &moments{}
	q := openOn(t, server.Client(t), "q", Config{Enlister: idle})
	calls := func() (n int) {
		_, _ = fmt.Sscanf(server.Info("commandstats")["cmdstat_evalsha"], "calls=%d,", &n)
		return n
	}
	write(t, q, "a:done b:fails c:later d:dies e:throttled f:next g:last")
	cfg := ReadConfig{Worker: "w1", Concurrency: 10, Max: 5}
	first, stale, err := q.Exchange(t.Context(), nil, cfg)
	want(t, "the first round", bodies(first), "done fails later dies throttled", err)
	want(t, "stale of nothing", len(stale), 0, nil)
	failed := errors.New("it failed")
	ended := map[string]error{
		first[0].Receipt: nil,
		first[1].Receipt: failed,
		first[2].Receipt: RetryAfter(time.Hour, failed),
		first[3].Receipt: NoRetry(failed),
		first[4].Receipt: Throttle(time.Hour, failed),
	}
	before := calls()
	next, stale, err := q.Exchange(t.Context(), ended, ReadConfig{Worker: "w1", Concurrency: 10, Max: 1})
	want(t, "the second round", bodies(next), "next", err)
	want(t, "stale", len(stale), 0, nil)
	want(t, "calls, one of them for what was not handled", calls()-before, 2, nil)
	s := stats(t, q)
	want(t, "waiting, delayed, in flight, dead", [4]int{s.Waiting, s.Delayed, s.InFlight, s.Dead}, [4]int{2, 2, 1, 1}, nil)
	delayed, _, err := q.Browse(t.Context(), BrowseConfig{State: Delayed})
	want(t, "delayed", bodies(delayed), "fails later", err)
	within(t, "the delay of one that failed once", delayed[0].Until.Sub(s.At), 0, time.Second)
	within(t, "the delay of RetryAfter", delayed[1].Until.Sub(s.At), 59*time.Minute, time.Hour)
	want(t, "the reason", delayed[0].Reason, "it failed", nil)
	limits, err := q.Limits().Get(t.Context(), "e")
	want(t, "whether the tenant of Throttle is paused", limits.Paused, true, err)

	ended[next[0].Receipt] = nil
	last, stale, err := q.Exchange(t.Context(), ended, cfg)
	want(t, "the last round", bodies(last), "last", err)
	want(t, "stale of a repeat", len(stale), 5, nil)
	want(t, "whether the other one is stale", slices.Contains(stale, next[0].Receipt), false, nil)
	_, stale, err = q.Exchange(t.Context(), map[string]error{first[0].Receipt: nil, last[0].Receipt: nil}, cfg)
	wantError(t, err, ErrEmpty)
	want(t, "moments offered, of the one exchange that found nothing", idle.n, 1, nil)
	want(t, "stale when nothing is left", fmt.Sprint(stale), fmt.Sprint([]string{first[0].Receipt}), nil)
	write(t, q, "h:waits")
	none, stale, err := q.Exchange(t.Context(), map[string]error{last[0].Receipt: nil}, ReadConfig{Worker: "w2", Max: -1, Block: time.Hour})
	want(t, "a round that takes none", bodies(none), "", err)
	want(t, "its stale", len(stale), 1, nil)
	want(t, "waiting after it, with that of the throttled tenant", stats(t, q).Waiting, 2, nil)
	want(t, "whether its worker counts", q.shared.workers.of["w2"] != nil, true, nil)
	many := map[string]error{}
	for i := range 1001 {
		many[fmt.Sprint(i)] = nil
	}
	for _, bad := range []map[string]error{{"17": nil}, many} {
		_, _, err = q.Exchange(t.Context(), bad, cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
}

// moments counts the moments that are offered to it.
type moments struct{ n int }

func (m *moments) Enlist(context.Context) { m.n++ }

// TestExchangeOfMany: more than a call settles are settled by several, and the read has one of its own.
func TestExchangeOfMany(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, strings.Repeat("a:x b:x c:x ", 100))
	ended := map[string]error{}
	for read := 0; read < 300; {
		some, stale, err := q.Exchange(t.Context(), ended, ReadConfig{Max: 150})
		if err != nil || len(stale) > 0 {
			t.Fatalf("%d stale, %v", len(stale), err)
		}
		clear(ended)
		for i, m := range some {
			if ended[m.Receipt] = nil; i%2 == 0 {
				ended[m.Receipt] = NoRetry(errors.New("it failed"))
			}
		}
		read += len(some)
	}
	_, stale, err := q.Exchange(t.Context(), ended, ReadConfig{Max: 150})
	wantError(t, err, ErrEmpty)
	s := stats(t, q)
	want(t, "stale, dead, acknowledged", [3]int64{int64(len(stale)), int64(s.Dead), s.Counters.Acked}, [3]int64{0, 150, 150}, nil)
}

// TestBackOff: a message that is given back doubles its delay with each attempt, up to ten minutes.
func TestBackOff(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 5, 9, 10, 11, 40, -2} { // less than 0 on miniredis
		q := open(t, Config{MaxAttempts: 100})
		if attempts < 0 {
			q, attempts = openOn(t, miniClient(t), "q", Config{MaxAttempts: 100}), -attempts
		}
		write(t, q, "a:x")
		for range attempts - 1 {
			m := read(t, q, 1)[0]
			if _, err := q.Nack(t.Context(), NackConfig{}, m.Receipt); err != nil {
				t.Fatal(err)
			}
		}
		m := read(t, q, 1)[0]
		n, err := q.Nack(t.Context(), NackConfig{BackOff: true, Delay: time.Hour}, m.Receipt)
		want(t, "given back", n, 1, err)
		at := stats(t, q).At
		delayed, _, err := q.Browse(t.Context(), BrowseConfig{State: Delayed})
		want(t, "delayed", len(delayed), 1, err)
		most := 10 * time.Minute
		if attempts < 11 {
			most = min(most, time.Second<<(attempts-1))
		}
		within(t, fmt.Sprintf("the delay after attempt %d", attempts), delayed[0].Until.Sub(at), most/2-time.Second, most)
	}
}

// within fails the test unless a time is in a range.
func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s is %v, want %v to %v", what, got, least, most)
	}
}
