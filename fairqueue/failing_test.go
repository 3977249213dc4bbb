package fairqueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// fails has messages of tenants fail, one after the other.
func (c *clockTest) fails(reason string, tenants ...string) {
	c.t.Helper()
	for _, tenant := range tenants {
		_, err := c.Write(c.t.Context(), Draft{Tenant: tenant})
		want(c.t, "write", nil, nil, err)
		nack(c.t, c.Queue, NackConfig{Dead: true, Reason: reason}, read(c.t, c.Queue, 1)...)
	}
}

// failing returns a line for each tenant of the table, as a reader sees it d after the start.
func (c *clockTest) failing(d time.Duration) map[string]string {
	c.t.Helper()
	there, _ := readRaw(c.t, c.Queue)
	all := map[string]string{}
	for _, f := range failingAt(c.start.Add(d), there.hot[failingField]) {
		all[f.Tenant] = fmt.Sprintf("%d, %d died, from %s to %s: %s", f.Count, f.Died, f.Oldest.Sub(c.start), f.Newest.Sub(c.start), f.Reason)
	}
	return all
}

func differ(got, want any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return wrong("-want +got:\n%s", diff)
	}
	return nil
}

// numbered returns t0, t1 and so on, without those of some numbers.
func numbered(n int, without ...int) (tenants []string) {
	for i := range n {
		if !slices.Contains(without, i) {
			tenants = append(tenants, fmt.Sprintf("t%02d", i))
		}
	}
	return tenants
}

// failingRows are what the table of tenants that fail promises. Each has the protections without which it does not hold, a text of the
// scripts and its replacement each.
var failingRows = map[string]struct {
	play        func(c *clockTest) error
	protections [][2]string
}{
	"a tenant that did not fail for ten minutes begins again": {func(c *clockTest) error {
		c.at(0)
		c.fails("timeout", "a", "b")
		c.at(9 * time.Minute)
		c.fails("refused", "a")
		c.at(18 * time.Minute)
		c.fails("", "a", "b") // the message has no other reason
		return differ(c.failing(18*time.Minute), map[string]string{
			"a": "3, 3 died, from 0s to 18m0s: no reason given", "b": "1, 1 died, from 18m0s to 18m0s: no reason given",
		})
	}, [][2]string{{"if began and now - before < quiet then", "if began then"}, {"made, deaths, since = failed + 0, died_by_now + 0, math.min(began + 0, now)", ""}}},
	"32 tenants, and the one with the fewest failures makes room": {func(c *clockTest) error {
		c.at(0)
		c.fails("x", numbered(32)...)
		c.fails("x", numbered(32, 7)...)
		c.at(time.Minute)
		c.fails("x", "new", "newer")
		return differ(slices.Sorted(maps.Keys(c.failing(time.Minute))), append([]string{"newer"}, numbered(32, 7)...))
	}, [][2]string{{"if count >= most then", "if false then"}, {"if failed + 0 < fewest then", "if failed + 0 > -fewest then"}}},
	"one that did not fail for ten minutes makes room first": {func(c *clockTest) error {
		c.at(0)
		c.fails("x", numbered(1)...)
		c.fails("x", numbered(1)...)
		c.at(10 * time.Minute)
		c.fails("x", numbered(32, 0)...)
		c.fails("x", "new")
		return differ(slices.Sorted(maps.Keys(c.failing(10*time.Minute))), append([]string{"new"}, numbered(32, 0)...))
	}, [][2]string{{"now - last >= quiet or ", ""}}},
	"one that failed by a clock that was ahead makes room": {func(c *clockTest) error {
		c.at(time.Hour)
		c.fails("x", numbered(1)...)
		c.fails("x", numbered(1)...)
		for _, tenant := range append(numbered(32, 0), "new") {
			_, err := c.Write(c.t.Context(), Draft{Tenant: tenant})
			want(c.t, "write", nil, nil, err)
		}
		held := read(c.t, c.Queue, 50)
		c.at(0)
		nack(c.t, c.Queue, NackConfig{Dead: true}, held...) // before a call moves the table back
		return differ(slices.Sorted(maps.Keys(c.failing(0))), append([]string{"new"}, numbered(32, 0)...))
	}, [][2]string{{" or last - now > 1000) and first", ") and first"}}},
	"no failure is of an instant that only a wrong clock named": {func(c *clockTest) error {
		c.at(jump)
		c.fails("x", "a")
		c.at(3 * time.Second)
		c.upkeep()
		return errors.Join(
			differ(c.failing(4*time.Second), map[string]string{"a": "1, 1 died, from 3s to 3s: x"}),
			differ(c.failing(2*time.Hour), map[string]string{}),
		)
	}, [][2]string{{"sets.f = failing and string.gsub", "local _ = failing and string.gsub"}}},
	"the table goes an hour after the last failure": {func(c *clockTest) error {
		c.at(0)
		c.fails("x", "a")
		c.at(30 * time.Minute)
		c.fails("x", "b")
		c.at(89 * time.Minute)
		c.upkeep()
		if err := differ(len(c.failing(0)), 2); err != nil {
			return err
		}
		c.at(90 * time.Minute)
		c.upkeep()
		return differ(c.failing(0), map[string]string{})
	}, [][2]string{{"gone.f = true", ""}, {"now - failed >= 3600000", "now - failed >= 0"}}},
	"a tenant that fails by a clock that went back": {func(c *clockTest) error {
		c.at(time.Hour)
		c.fails("x", "a")
		c.at(0)
		c.fails("y", "a")
		return differ(c.failing(time.Minute), map[string]string{"a": "2, 2 died, from 0s to 0s: y"})
	}, [][2]string{{"math.min(began + 0, now)", "began + 0"}}},
	"any bytes": {func(c *clockTest) error {
		c.at(0)
		tenants := []string{"a\x01b", "a\x02", "=a\x00", "\x01\x01", strings.Repeat("\x01", 512), " 1 2 3 ", "%d+", "\xff", "a\nb"}
		want := map[string]string{}
		for _, tenant := range tenants {
			c.fails("1 2 3 4 \x01=x\x01\x00"+strings.Repeat("é", 150), tenant, tenant)
			want[tenant] = "2, 2 died, from 0s to 0s: 1 2 3 4  =x \x00" + strings.Repeat("é", 93)
		}
		return differ(c.failing(0), want)
	}, [][2]string{{"string.sub(why, 1, 200)", "why .. why"}}},
	"what is handed back or throttled did not fail": {func(c *clockTest) error {
		c.at(0)
		c.draft(Draft{})
		nack(c.t, c.Queue, NackConfig{Unstarted: true, Reason: "gone"}, read(c.t, c.Queue, 1)...)
		m := read(c.t, c.Queue, 1)[0]
		_, _, err := c.Exchange(c.t.Context(), map[string]error{m.Receipt: Throttle(time.Minute, errors.New("429"))}, ReadConfig{Max: -1})
		want(c.t, "exchange", nil, nil, ignore(err, ErrEmpty))
		return differ(c.failing(0), map[string]string{})
	}, [][2]string{{"if failed then\n    note_failure", "if true then\n    note_failure"}}},
	"a visibility that ended counts, and a cancelled message does not": {func(c *clockTest) error {
		c.at(0)
		ids := []string{c.draft(Draft{}), c.draft(Draft{})}
		_, err := c.Read(c.t.Context(), ReadConfig{Max: 2, Visibility: 20 * time.Second})
		want(c.t, "read", nil, nil, err)
		_, err = c.Cancel(c.t.Context(), ids[1])
		want(c.t, "cancel", nil, nil, err)
		c.at(30 * time.Second)
		c.upkeep()
		return differ(c.failing(30*time.Second), map[string]string{"a": "1, 0 died, from 30s to 30s: its reader did not finish in time"})
	}, nil},
}

// TestFailing: the queue knows which tenants fail, and forgets none that fails most.
func TestFailing(t *testing.T) {
	t.Parallel()
	for name, row := range failingRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, streams := range []int{0, 3} {
				c := newClockTestOn(t, redistest.Shared(t).Client(t), Config{Streams: streams, MaxAttempts: 100})
				want(t, name, nil, nil, row.play(c))
				faults, err := c.Check(t.Context())
				want(t, "faults", faults, []string(nil), err)
			}
			for _, p := range row.protections {
				c := newClockTestOf(t, redistest.Shared(t).Client(t), Config{MaxAttempts: 100}, scripttest.Without(t, library, p[0], p[1]))
				if row.play(c) == nil {
					t.Errorf("it holds with %q instead of %q", p[1], p[0])
				}
			}
		})
	}
}

// TestFailingOnAFullServer: failures are counted, and messages retried, while the server takes no writes.
func TestFailingOnAFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	q := openOn(t, client, "x", Config{})
	ids := write(t, q, "a:1 a:2 b:3")
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "1").Error())
	nack(t, q, NackConfig{Delay: time.Hour, Reason: "HTTP 503"}, read(t, q, 3)...)
	for _, f := range stats(t, q).Failing {
		want(t, "reason", f.Reason, "HTTP 503", nil)
	}
	want(t, "tenants", len(stats(t, q).Failing), 2, nil)
	n, _, err := q.Retry(t.Context(), SearchConfig{}, ids[0])
	want(t, "retried", n, 1, err)
	n, _, err = q.Retry(t.Context(), SearchConfig{Tenant: "b", Reason: "HTTP #"})
	want(t, "retried", n, 1, err)
	wantSizes(t, q, 2, 0, 1, 0)
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "0").Error())
	faults, err := q.Check(t.Context())
	want(t, "faults", faults, []string(nil), err)
}

// TestFailuresOfRetries: errors that differ in numbers only are one, which a search and a retry find; messages that their
// writer delayed did not fail.
func TestFailuresOfRetries(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ctx := t.Context()
	for _, d := range []Draft{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "a"}, {Tenant: "a"}, {Tenant: "c", Delay: time.Hour}} {
		_, err := q.Write(ctx, d)
		want(t, "write", nil, nil, err)
	}
	for i, m := range read(t, q, 4) {
		reason := fmt.Sprintf("no order %d of 12", 9+i)
		if i == 3 {
			reason = "HTTP 503"
		}
		nack(t, q, NackConfig{Delay: time.Duration(i+1) * time.Minute, Reason: reason}, m)
	}
	all, found, err := q.Failures(ctx, SearchConfig{})
	if err != nil || len(all) != 2 || found.Looked != 5 || found.Total != 5 || found.Next != "" {
		t.Fatalf("%+v, %+v: %v", all, found, err)
	}
	most, other := all[0], all[1]
	want(t, "error", []any{most.Reason, most.Count, most.Tenant, most.Tenants}, []any{"no order # of 12", 3, "", map[string]int{"a": 2, "b": 1}}, nil)
	want(t, "other error", []any{other.Reason, other.Count, other.Tenant, other.Tenants}, []any{"HTTP 503", 1, "a", map[string]int{"a": 1}}, nil)
	if due := most.Next.Sub(most.Oldest); due < 59*time.Second || due > time.Minute+time.Second || most.Newest.Before(most.Oldest) {
		t.Errorf("it is due %s after it failed: %+v", due, most)
	}
	got, _, _ := search(t, q, SearchConfig{State: Delayed, Reason: most.Reason})
	want(t, "found", len(got), 3, nil)
	got, _, _ = search(t, q, SearchConfig{State: Delayed, Reason: "no order 10 of 12"})
	want(t, "found", len(got), 1, nil)
	n, _, err := q.Retry(ctx, SearchConfig{Reason: most.Reason, Tenant: "a"})
	want(t, "retried", n, 2, err)
	for _, m := range read(t, q, 9) {
		if m.Tenant != "a" || m.Attempt != 2 || !strings.HasPrefix(m.Reason, "no order ") {
			t.Errorf("%+v was retried", m)
		}
	}
	n, found, err = q.Retry(ctx, SearchConfig{})
	if n != 2 || err != nil || found.Looked != 3 {
		t.Errorf("retried %d, %+v: %v", n, found, err)
	}
	wantSizes(t, q, 2, 2, 1, 0)
	nack(t, q, NackConfig{Delay: time.Hour}, read(t, q, 2)...)
	write(t, q, "d:1")
	nack(t, q, NackConfig{Delay: time.Hour}, read(t, q, 1)...) // which has no reason
	n, _, err = q.Retry(ctx, SearchConfig{Reason: noReason})
	want(t, "retried without a reason", n, 1, err)
	_, _, err = q.Retry(ctx, SearchConfig{State: Waiting})
	wantError(t, err, millrace.ErrBadArgument)
	_, _, err = q.Retry(ctx, SearchConfig{}, "x")
	wantError(t, err, millrace.ErrBadArgument)
	_, _, err = q.Retry(ctx, SearchConfig{Look: -1})
	wantError(t, err, millrace.ErrBadArgument)
}

// TestRetryKeepsTheDeadline: a message that is retried expires when it should.
func TestRetryKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	id := c.draft(Draft{Delay: time.Hour, TTL: 2 * time.Hour, Cost: 3})
	n, _, err := c.Retry(t.Context(), SearchConfig{}, id)
	want(t, "retried", n, 1, err)
	m := read(t, c.Queue, 1)[0]
	want(t, "message", []any{m.ID, m.Attempt, m.Cost, m.Deadline.Sub(c.start), m.PickupDelay}, []any{id, 1, 3, 2 * time.Hour, time.Duration(0)}, nil)
	nack(t, c.Queue, NackConfig{Delay: time.Hour}, m)
	n, _, err = c.Retry(t.Context(), SearchConfig{}, id)
	want(t, "retried", n, 1, err)
	c.at(3 * time.Hour)
	want(t, "left", c.take(), "", nil)
	wantSizes(t, c.Queue, 0, 0, 0, 0)
}

// TestErrorsInCommon: a pattern keeps the numbers in which errors agree, and covers them and no others.
func TestErrorsInCommon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, common, covered, not string }{
		{"GET /7: 503", "GET /11: 503", "GET /#: 503", "GET /1: 503", "GET /1: 404"},
		{"issue #4", "issue #5", "issue ##", "issue #17", "issue #x"},
		{"a #", "a 5", "a #", "a 17", "a 5 5"},
		{"1.5s", "1.25s", "1.#s", "1.0s", "2.0s"},
		{"\xff1", "\xff2", "\xff#", "\xff3", "\xfe3"},
	} {
		want(t, c.a, inCommon(c.a, c.b), c.common, nil)
		for _, text := range []string{c.a, c.b, c.common, c.covered} {
			want(t, text, covers(c.common, text), true, nil)
		}
		want(t, c.not, covers(c.common, c.not), false, nil)
	}
	want(t, "a text without a mark", covers("GET /7", "GET /8"), false, nil)
}

func TestWithoutNumbers(t *testing.T) {
	t.Parallel()
	for text, without := range map[string]string{
		"": "", "refused": "refused", "17": "#", "a1b22": "a#b#", "#1": "##", "no order 17 of \xff99": "no order # of \xff#", "1.5s": "#.#s",
	} {
		want(t, text, withoutNumbers(text), without, nil)
		want(t, without, withoutNumbers(without), without, nil)
	}
}

// TestFailingOfOtherPrograms: a table that is none is replaced by the next failure.
func TestFailingOfOtherPrograms(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, text := range []string{"", "x", "\x01", "\x01=a\x01", "\x01=a\x01x\x01", "\x01=b\x011 1 1 1 x\x01=a"} {
		write(t, q, "a:1")
		want(t, "HSET", nil, nil, do(t, q.run.Client, "HSET", baseKey(q.name)+":hot", failingField, text).Error())
		stats(t, q)
		nack(t, q, NackConfig{Dead: true, Reason: "why"}, read(t, q, 1)...)
		want(t, fmt.Sprintf("%q", text), stats(t, q).Failing[0].Reason, "why", nil)
	}
}
