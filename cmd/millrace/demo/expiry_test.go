package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/steal"
)

// hostBadly is the expiry scene's host, but for what spoil changes.
func hostBadly(spoil func(*host)) func(context.Context, part) error {
	return func(ctx context.Context, p part) error {
		h, err := newHost(ctx, p)
		if err != nil {
			return err
		}
		spoil(h)
		return h.serve(ctx)
	}
}

func hoard(h *host) {
	h.reap.Slice = func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil }
}

func lookPastDeadlines(h *host) {
	h.get = func(ctx context.Context, hash, field string) ([]byte, error) {
		key := shardKey(h.name, shardOf(hash)) + ":h:" + hash
		h.recruiter.Enlist(ctx)
		value, err := h.client.Do(ctx, h.client.B().Hget().Key(key).Field(field).Build()).AsBytes()
		if err != nil {
			return nil, millrace.ErrNotFound.Wrap(err)
		}
		return value[8:], nil // behind the deadline
	}
}

func giveUpEarly(h *host) {
	h.get = func(ctx context.Context, hash, field string) ([]byte, error) {
		value, ttl, err := h.hashes.Get(ctx, hash, field)
		if err == nil && ttl != expiry.NoTTL && ttl < time.Second {
			err = millrace.ErrNotFound
		}
		return value, err
	}
}

// The checks can fail: hosts that do not keep the promises are found out.
func TestHostsThatBreakTheirPromisesAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		host   string
		checks string // that may fail, one of them at least
		says   string // a failure
	}{
		{hoarding, "fields_counted garbage_bounded", ""},
		{blind, "nothing_after_its_deadline nothing_missing_before_it", "after its deadline"},
		{hasty, "nothing_missing_before_it share", "before its deadline"},
	} {
		t.Run(test.host, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			cfg := testConfig(server.URL(), expiryScene())
			cfg.child = self(test.host)
			report, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK {
				t.Error("report is OK")
			}
			for _, c := range report.Scenes[0].Checks {
				if !c.OK && !strings.Contains(test.checks, c.Name) {
					t.Errorf("check %s fails: %s", c.Name, c.Sentence)
				}
			}
			if failures := strings.Join(report.Scenes[0].Failures, "\n"); !strings.Contains(failures, test.says) {
				t.Errorf("failures = %q, want one that says %q", failures, test.says)
			}
			wantEmpty(t, server.Client(t))
		})
	}
}

// ms is a moment.
func ms(n int64) time.Time { return time.UnixMilli(n) }

// lookAt is a look at a moment.
func lookAt(at int64, overdue int, reaped int64) expiryLook {
	l := expiryLook{before: ms(at - 1), after: ms(at)}
	l.Overdue, l.Reaped = overdue, reaped
	return l
}

// soundExpiry is a performance of the expiry scene in which all went well: of four
// sessions one is renewed, two expire and are reaped, and one is overdue.
func soundExpiry(t *testing.T) *expiryPlay {
	t.Helper()
	p := &expiryPlay{
		stage: &stage{}, ledger: newSessionLedger(), serving: time.Second,
		looks: []expiryLook{lookAt(1000, 0, 0), lookAt(1200, 2, 0), lookAt(1300, 0, 2), lookAt(1400, 1, 2)},
	}
	for _, line := range []string{
		`a runtime that prints what it likes`,
		`{"host":1,"began":[1100,1150],"stats":{}}`,
		`{"host":2,"began":[1250,1390],"stats":{}}`,
		`{"host":2,"began":[9000],"renewed":[1250],"reads":10000,"hits":9000,"over":500,
			"stats":{"Jobs":[{"Drawn":27,"Floored":3,"Worked":20,"Idle":8,"Aborted":{"Busy":2}}]}}`,
	} {
		p.ledger.hear([]byte(strings.ReplaceAll(line, "\n", "")))
	}
	if got, want := len(p.ledger.loaded), hosts; got != want {
		t.Errorf("%d hosts have loaded, want %d", got, want)
	}
	return p
}

func TestEachCheckOfTheExpirySceneCanFail(t *testing.T) {
	t.Parallel()
	news := func(change func(*hostNews)) func(*expiryPlay) {
		return func(p *expiryPlay) {
			of := p.ledger.news[2]
			change(&of)
			p.ledger.news[2] = of
		}
	}
	recruits := func(change func(*steal.JobStats)) func(*expiryPlay) {
		return news(func(n *hostNews) { change(&n.Stats.Jobs[0]) })
	}
	for _, test := range []struct {
		check string // none when empty
		spoil func(p *expiryPlay)
	}{
		{"", func(*expiryPlay) {}},
		{"nothing_after_its_deadline", news(func(n *hostNews) { n.Late = 1 })},
		{"nothing_after_its_deadline", news(func(n *hostNews) { n.Over = 0 })},
		{"nothing_missing_before_it", news(func(n *hostNews) { n.Early = 1 })},
		{"garbage_bounded", func(p *expiryPlay) { p.looks[1].Overdue = 3 }},
		{"share", news(func(n *hostNews) { n.Hits = 30_000 })},
		{"share", news(func(n *hostNews) { n.Hits = 300 })},
		{"recruits_counted", recruits(func(j *steal.JobStats) { j.Worked++ })},
		{"fields_counted", func(p *expiryPlay) { p.looks[3].Reaped = 4 }},
		{"fields_counted", func(p *expiryPlay) { p.looks[3].Overdue = 0 }},
		{"fields_counted", func(p *expiryPlay) { p.looks[3].Reaped, p.looks[3].Overdue = 0, 2 }},
		{"", func(p *expiryPlay) {
			news(func(n *hostNews) { n.Stillborn = 1 })(p)
			p.looks[3].Overdue = 0
		}},
	} {
		p := soundExpiry(t)
		test.spoil(p)
		wantFailed(t, p.judge().Checks, test.check)
	}
}

func TestFiguresOfTheExpiryScene(t *testing.T) {
	t.Parallel()
	seen := soundExpiry(t).judge()
	got := map[string]any{}
	for _, f := range seen.Figures {
		got[f.Key] = f.Value
	}
	for key, want := range map[string]any{
		"reads": int64(10_000), "hits": int64(9000), "reads_after_deadline": int64(500),
		"recruited": int64(30), "recruited_percent": 0.3, "worked": int64(20), "idle": int64(8), "aborted": int64(2),
		"expired": int64(3), "renewed": int64(1), "reaped": int64(2), "greatest_overdue": int64(2), "overdue_at_end": int64(1),
		// From 1100 and 1150 to 1300, and from 1390 to the end.
		"overdue_p50_ms": int64(150), "overdue_p99_ms": int64(150),
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
}

func TestStays(t *testing.T) {
	t.Parallel()
	p := soundExpiry(t)
	want := []time.Duration{200 * time.Millisecond, 150 * time.Millisecond, 10 * time.Millisecond}
	if diff := cmp.Diff(want, p.stays(p.ledger.ended(ms(1400)))); diff != "" {
		t.Errorf("stays (-want +got):\n%s", diff)
	}
}

func TestClockBounds(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := newServerClock(nil, "")
	c.told[3].Store(&told{time: ms(5_000_000), asked: began, answered: began.Add(2 * time.Millisecond)})
	for _, test := range []struct {
		after            time.Duration
		earliest, latest time.Duration // since the server told its time
	}{
		{0, -2 * time.Millisecond, time.Microsecond},
		{2 * time.Millisecond, -time.Microsecond, 2002 * time.Microsecond},
		{2 * time.Second, 1997 * time.Millisecond, 2001*time.Millisecond + time.Microsecond},
	} {
		earliest, latest := c.bounds(3, began.Add(test.after))
		if got, want := earliest.Sub(ms(5_000_000)), test.earliest; got != want {
			t.Errorf("after %s the earliest is %s, want %s", test.after, got, want)
		}
		if got, want := latest.Sub(ms(5_000_000)), test.latest; got != want {
			t.Errorf("after %s the latest is %s, want %s", test.after, got, want)
		}
	}
}

func TestClockHoldsTheServersTime(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	c := newServerClock(client, redistest.Name(t))
	must(t, c.ask(t.Context()))
	before, _ := c.span(time.Now())
	now, err := client.Do(t.Context(), client.B().Time().Build()).AsIntSlice()
	must(t, err)
	_, after := c.span(time.Now())
	if server := time.Unix(now[0], now[1]*1000); server.Before(before) || server.After(after) {
		t.Errorf("the server's time is %s, not from %s to %s", server, before, after)
	}
}

func TestSpark(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []int
		width  int
		want   string
	}{
		{nil, 5, ""},
		{[]int{0, 0}, 5, "▁▁"},
		{[]int{0, 7, 3}, 5, "▁█▄"},
		{[]int{1, 14, 0, 2, 8, 6}, 3, "█▂▅"},
	} {
		if got := spark(test.values, test.width); got != test.want {
			t.Errorf("spark(%v, %d) = %s, want %s", test.values, test.width, got, test.want)
		}
	}
}
