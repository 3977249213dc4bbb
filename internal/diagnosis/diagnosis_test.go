package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/readable"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// reads is a reader that was seen so long ago.
func reads(name string, handlers, busy int, ago time.Duration) queuestats.Reader {
	return queuestats.Reader{Name: name, Host: "host-3", Concurrency: handlers, InFlight: busy, LastSeen: noon.Add(-ago)}
}

func flow(tenant string, waiting int, oldest time.Duration, change ...func(*queuestats.Flow)) queuestats.Flow {
	f := queuestats.Flow{Tenant: tenant, Stream: -1, Waiting: waiting, OldestAge: oldest, Handling: -1}
	for _, c := range change {
		c(&f)
	}
	return f
}

func inFlight(n int, handling time.Duration) func(*queuestats.Flow) {
	return func(f *queuestats.Flow) { f.InFlight, f.Handling = n, handling }
}

// in returns a queue of these flows.
func in(delivered int64, readers []queuestats.Reader, flows ...queuestats.Flow) queuestats.Stats {
	s := queuestats.Stats{Name: "orders", At: noon, Flows: flows, Readers: readers, Counters: queuestats.Counters{Delivered: delivered}}
	for _, f := range flows {
		s.Waiting += f.Waiting
		s.InFlight += f.InFlight
		s.OldestAge = max(s.OldestAge, f.OldestAge)
	}
	for _, r := range readers {
		s.Capacity += r.Concurrency
	}
	return s
}

// TestOfQueue: each problem has its cause, its severity, the tenant, how long the others wait,
// and the command that ends it. A healthy queue has none.
func TestOfQueue(t *testing.T) {
	t.Parallel()
	one := []queuestats.Reader{reads("worker-1", 10, 10, time.Second)}
	paused := func(f *queuestats.Flow) { f.Paused = true }
	sleeps := func(f *queuestats.Flow) { f.NotBefore, f.ByRate, f.Limits.Rate = noon.Add(time.Second), true, 2 }
	throttled := func(f *queuestats.Flow) { f.NotBefore = noon.Add(time.Hour) }
	full := func(f *queuestats.Flow) { f.Held, f.InFlight, f.Limits.MaxInFlight = true, 5, 5 }
	for name, c := range map[string]struct {
		stats queuestats.Stats
		want  []string
	}{
		"an empty queue":       {in(0, nil), nil},
		"a queue that is read": {in(500, one, flow("a", 5, time.Second), flow("b", 3, time.Second)), nil},
		"a queue that is new":  {in(0, nil, flow("a", 5, 3*time.Second)), nil},
		"never read": {in(0, nil, flow("a", 5, 15*time.Second)), []string{
			"critical never_read for 15s: was never read: 5 messages wait, the oldest for 15s",
		}},
		"no reader": {in(9, nil, flow("a", 1, 40*time.Second)), []string{
			"critical no_reader for 40s: has no reader: 1 message waits, the oldest for 40s",
		}},
		"read by programs that it does not know": {in(9, nil, flow("a", 1, 40*time.Second, inFlight(1, -1))), nil},
		"readers that vanished": {in(9, []queuestats.Reader{reads("w1", 5, 0, 12*time.Second), reads("w2", 5, 0, 9*time.Second)}, flow("a", 3, 4*time.Second)), []string{
			"critical readers_gone for 4s: has lost its readers without a word: w2 at host-3 was seen last, 9s ago. 3 messages wait, the oldest for 4s",
		}},
		"readers that vanished a while ago, with messages": {func() queuestats.Stats {
			s := in(9, nil, flow("a", 3, 30*time.Second, inFlight(2, -1)))
			s.Vanished = []queuestats.Reader{reads("w1", 5, 2, 40*time.Second)}
			return s
		}(), []string{
			"critical readers_gone for 30s: has lost its readers without a word: w1 at host-3 was seen last, 40s ago. 3 messages wait, the oldest for 30s",
		}},
		"readers that vanished with all messages": {func() queuestats.Stats {
			s := in(9, nil)
			s.InFlight, s.Abandoned, s.AbandonedAge = 2, 2, 10*time.Second
			s.Vanished = []queuestats.Reader{reads("w1", 5, 2, 40*time.Second)}
			return s
		}(), []string{
			"critical readers_gone for 10s: has lost its readers without a word: w1 at host-3 was seen last, 40s ago. 2 messages are abandoned, for up to 10s",
		}},
		"no reader takes what others have abandoned": {func() queuestats.Stats {
			s := in(9, nil, flow("a", 1, 2*time.Minute))
			s.InFlight, s.Abandoned, s.AbandonedAge = 1, 1, 5*time.Minute
			return s
		}(), []string{
			"critical no_reader for 5m0s: has no reader: 1 message waits, the oldest for 2m0s; 1 message is abandoned, for up to 5m0s",
		}},
		"a reader that the queue does not know is a moment late": {func() queuestats.Stats {
			s := in(9, nil)
			s.InFlight, s.Abandoned, s.AbandonedAge = 1, 1, 5*time.Second
			return s
		}(), nil},
		"one of two readers vanished": {in(9, []queuestats.Reader{reads("w1", 5, 0, 12*time.Second), reads("w2", 5, 0, time.Second)}, flow("a", 3, 4*time.Second)), nil},
		"one of three readers was killed": {func() queuestats.Stats {
			s := in(9, []queuestats.Reader{reads("w1", 5, 1, time.Second), reads("w2", 5, 5, time.Second)}, flow("a", 3, 4*time.Second))
			s.Vanished = []queuestats.Reader{reads("w3", 3, 2, 2*time.Hour)}
			return s
		}(), []string{
			"note reader_lost for 0s: has lost w3 at host-3 without a word 2h0m0s ago, and 3 handlers of 13 were not replaced",
		}},
		"two of three readers were killed, and messages wait for the last one": {func() queuestats.Stats {
			s := in(9, []queuestats.Reader{reads("w1", 5, 5, time.Second)}, flow("a", 3, 40*time.Second), flow("b", 3, 2*time.Hour, paused))
			s.Vanished = []queuestats.Reader{reads("w2", 5, 2, 2*time.Hour), reads("w3", 5, 2, time.Minute)}
			return s
		}(), []string{
			"warning reader_lost for 40s: has lost 2 readers, the last one w3 at host-3, without a word 1m0s ago, and 10 handlers of 15 were not replaced; meanwhile the others are busy, and a message waits for 40s",
			"note tenant_paused of {b} for 2h0m0s: has tenant b paused: 3 messages wait (queue tenant resume orders b)",
		}},
		"a tenant that has its share of the handlers": {in(9, []queuestats.Reader{reads("w1", 10, 2, time.Second)}, flow("a", 3, 6*time.Minute, inFlight(2, 50*time.Millisecond), func(f *queuestats.Flow) { f.Held = true })), []string{
			"warning old for 6m0s: has a message that waits for 6m0s, though 8 of 10 handlers are free: its tenant has its share of them",
		}},
		"readers that take nothing": {in(9, []queuestats.Reader{reads("w1", 10, 2, time.Second)}, flow("a", 3, 6*time.Minute)), []string{
			"warning old for 6m0s: has a message that waits for 6m0s, though 8 of 10 handlers are free",
		}},
		"a server that takes no writes": {func() queuestats.Stats {
			s := in(9, []queuestats.Reader{reads("w1", 5, 0, 12*time.Second)}, flow("acme", 300, 40*time.Second), flow("b", 3, 20*time.Second))
			s.Vanished = []queuestats.Reader{reads("w2", 5, 0, 20*time.Second)}
			s.Refused, s.OverdueSchedules = "MISCONF Redis is unable to persist to disk. Check its log.", 1
			return s
		}(), []string{
			"critical no_writes for 40s: has a server that takes no writes, so nothing moves, and its readers cannot report: MISCONF Redis is unable to persist to disk",
			"note flood of {acme} for 20s: is flooded by tenant acme: 300 of 303 waiting messages are its own; meanwhile 3 messages wait of others, the oldest for 20s (queue tenant pause orders acme)",
		}},
		"tenants that fail": {func() queuestats.Stats {
			s := in(9, one)
			fails := func(tenant string, count, died int, since, last time.Duration) {
				s.Failing = append(s.Failing, queuestats.Failures{Tenant: tenant, Reason: "db is down", Count: count, Died: died, Oldest: noon.Add(-since), Newest: noon.Add(-last)})
			}
			fails("acme", 120, 4, 3*time.Minute, 5*time.Second)
			fails("few", 9, 0, time.Minute, time.Second)
			fails("rare", 90, 0, 3*time.Hour, time.Second)
			fails("over", 900, 9, time.Hour, 11*time.Minute)
			fails("young", 20, 0, time.Minute, time.Second)
			fails("long", 20, 0, 10*time.Minute, time.Second)
			return s
		}(), []string{
			"warning failing of {acme} for 0s: has failing handlers for tenant acme: 120 deliveries failed in 2m55s, and 4 messages died; the last error, 5s ago: db is down (queue tenant pause orders acme)",
			"warning failing of {long} for 0s: has failing handlers for tenant long: 20 deliveries failed in 9m59s; the last error, 1s ago: db is down (queue tenant pause orders long)",
			"note failing of {young} for 0s: has failing handlers for tenant young: 20 deliveries failed in 59s; the last error, 1s ago: db is down (queue tenant pause orders young)",
		}},
		"a late schedule": {func() queuestats.Stats {
			s := in(9, nil)
			s.OverdueSchedules = 1
			return s
		}(), []string{"critical schedule_late for 0s: has 1 overdue schedule: a tick is due for more than a minute"}},
		"a pause": {func() queuestats.Stats {
			s := in(9, nil, flow("a", 300, time.Hour), flow("b", 1, time.Hour))
			s.Paused = true
			return s
		}(), []string{"warning paused for 1h0m0s: is paused, and 301 messages wait (queue resume orders)"}},
		"a flood": {in(9, one, flow("acme", 48210, 9*time.Second), flow("b", 60, 2*time.Second), flow("c", 30, 4200*time.Millisecond)), []string{
			"warning flood of {acme} for 4s: is flooded by tenant acme: 48,210 of 48,300 waiting messages are its own; meanwhile 90 messages wait of others, the oldest for 4s (queue tenant pause orders acme)",
		}},
		"a flood that harms nobody": {in(9, one, flow("acme", 500, time.Second)), []string{
			"note flood of {acme} for 0s: is flooded by tenant acme: 500 of 500 waiting messages are its own; nobody else waits (queue tenant pause orders acme)",
		}},
		"an old flood of a tenant whose name needs quotes": {in(9, one, flow("it's", 500, 8*time.Minute)), []string{
			`warning flood of {it's} for 8m0s: is flooded by tenant it's: 500 of 500 waiting messages are its own; nobody else waits; its own wait for 8m0s (queue tenant pause orders 'it'\''s')`,
		}},
		"a flood of a tenant whose name is a flag": {in(9, one, flow("-h", 500, time.Second)), []string{
			`note flood of {-h} for 0s: is flooded by tenant -h: 500 of 500 waiting messages are its own; nobody else waits (queue tenant pause orders '{"base64":"LWg="}')`,
		}},
		"a flood of a tenant whose name is another one's in base64": {in(9, one, flow(`{"base64":"YWNtZQ=="}`, 500, time.Second)), []string{
			`note flood of {{"base64":"YWNtZQ=="}} for 0s: is flooded by tenant {"base64":"eyJiYXNlNjQiOiJZV050WlE9PSJ9"}: 500 of 500 waiting messages are its own; nobody else waits (queue tenant pause orders '{"base64":"eyJiYXNlNjQiOiJZV050WlE9PSJ9"}')`,
		}},
		"a slow tenant": {in(9, one, flow("bolt", 40, 20*time.Second, inFlight(9, 5100*time.Millisecond)), flow("b", 20, 3300*time.Millisecond)), []string{
			"warning slow of {bolt} for 3s: has slow handlers for tenant bolt: its messages have 9 of 10, and take 5s each; meanwhile 20 messages wait of others, the oldest for 3s (queue tenant pause orders bolt)",
		}},
		"a tenant that hangs": {in(9, one, flow("bolt", 40, 20*time.Second, inFlight(5, -1), func(f *queuestats.Flow) { f.Held = true }), flow("b", 20, 3300*time.Millisecond)), []string{
			"warning slow of {bolt} for 3s: has slow handlers for tenant bolt: its messages have 5 of 10, and none of them has ended yet; meanwhile 20 messages wait of others, the oldest for 3s (queue tenant pause orders bolt)",
		}},
		"a tenant that is paused": {in(9, one, flow("a", 12, time.Hour, paused), flow("b", 1, time.Millisecond)), []string{
			"note tenant_paused of {a} for 1h0m0s: has tenant a paused: 12 messages wait (queue tenant resume orders a)",
		}},
		"a forgotten pause": {in(9, one, flow("a", 12, 26*time.Hour, paused)), []string{
			"warning tenant_paused of {a} for 1d2h: has tenant a paused: 12 messages wait, the oldest for 1d2h (queue tenant resume orders a)",
		}},
		"dead messages that were dropped": {func() queuestats.Stats {
			s := in(9, one)
			s.Dead, s.Counters.Dropped, s.DeadMost, s.DeadAge = 3, 2, queuestats.DefaultDeadMost, queuestats.DefaultDeadAge
			return s
		}(), []string{"warning dead_dropped for 0s: has dropped 2 dead messages, the oldest first"}},
		"dead messages that were dropped beyond a bound of the operator": {func() queuestats.Stats {
			s := in(9, one)
			s.Dead, s.Counters.Dropped, s.DeadMost = 3, 1, 3
			return s
		}(), []string{"note dead_dropped for 0s: has dropped 1 dead message, the oldest first"}},
		"dead messages that were dropped before all others were redriven": {func() queuestats.Stats {
			s := in(9, one)
			s.Counters.Dropped, s.DeadMost = 3, 3
			return s
		}(), nil},
		"a full tenant": {in(9, one, flow("a", 12, time.Second, func(f *queuestats.Flow) { f.Limits.MaxWaiting = 12 })), []string{
			"warning tenant_full of {a} for 1s: refuses messages of tenant a: 12 messages wait, as many as may (queue tenant show orders a)",
		}},
		"a pause of the only tenant that waits, in a queue without known readers": {in(9, nil, flow("a", 5, time.Hour, paused)), []string{
			"note tenant_paused of {a} for 1h0m0s: has tenant a paused: 5 messages wait (queue tenant resume orders a)",
		}},
		"a rate that holds back all that waits": {in(9, nil, flow("a", 5, time.Minute, sleeps)), nil},
		"a flood that its rate holds back": {in(9, one, flow("acme", 32743, 20*time.Minute, sleeps), flow("b", 1126, 20*time.Minute, throttled)), []string{
			"warning limited of {acme} for 20m0s: holds back tenant acme by its rate: 32,743 messages wait, the oldest for 20m0s",
			"warning limited of {b} for 20m0s: holds back tenant b by a pause or a throttle for another 1h0m0s: 1,126 messages wait, the oldest for 20m0s (queue tenant resume orders b)",
		}},
		"a flood at its most in flight": {in(9, one, flow("acme", 500, 20*time.Second, full), flow("b", 1, time.Millisecond)), []string{
			"note limited of {acme} for 20s: holds back tenant acme by its most in flight, 5: 500 messages wait, the oldest for 20s",
		}},
		"a flood beside others that wait for their limits": {in(9, one, flow("acme", 500, time.Second), flow("b", 99, time.Minute, sleeps)), []string{
			"note flood of {acme} for 0s: is flooded by tenant acme: 500 of 599 waiting messages are its own; the others wait for their own limits and pauses (queue tenant pause orders acme)",
		}},
		"a pause of a tenant, and no reader for the others": {in(9, nil, flow("big", 5, time.Hour, paused), flow("b", 2, 15*time.Second)), []string{
			"critical no_reader for 15s: has no reader: 2 messages wait, the oldest for 15s",
			"note tenant_paused of {big} for 1h0m0s: has tenant big paused: 5 messages wait (queue tenant resume orders big)",
		}},
		"a reader that vanished a moment after the last message": {in(9, []queuestats.Reader{reads("w1", 5, 0, 9*time.Second)}, flow("a", 1, time.Millisecond)), nil},
		"a flood that nobody reads": {in(9, nil, flow("acme", 500, time.Minute), flow("b", 1, 30*time.Second)), []string{
			"critical no_reader for 1m0s: has no reader: 501 messages wait, the oldest for 1m0s",
			"note flood of {acme} for 30s: is flooded by tenant acme: 500 of 501 waiting messages are its own; meanwhile 1 message waits of others, the oldest for 30s (queue tenant pause orders acme)",
		}},
		"a flood beside a tenant that is paused": {in(9, one, flow("acme", 500, time.Second), flow("b", 1, time.Millisecond), flow("big", 5, time.Hour, paused)), []string{
			"note flood of {acme} for 1ms: is flooded by tenant acme: 500 of 506 waiting messages are its own; meanwhile 1 message waits of others, the oldest for 1ms (queue tenant pause orders acme)",
			"note tenant_paused of {big} for 1h0m0s: has tenant big paused: 5 messages wait (queue tenant resume orders big)",
		}},
		"a quick tenant at its limit": {in(9, one, flow("a", 40, 20*time.Second, inFlight(5, 5*time.Millisecond), func(f *queuestats.Flow) { f.Held = true }), flow("b", 20, 3*time.Second)), nil},
		"a slow tenant in a queue that is paused": {func() queuestats.Stats {
			s := in(9, one, flow("bolt", 40, time.Minute, inFlight(9, 5*time.Second)), flow("b", 20, time.Minute))
			s.Paused = true
			return s
		}(), []string{"note paused for 1m0s: is paused, and 60 messages wait (queue resume orders)"}},
		"too few handlers beside a pause": {in(9, one, flow("p", 1, time.Hour, paused), flow("a", 12, 6*time.Minute), flow("b", 12, 6*time.Minute)), []string{
			"warning old for 6m0s: has a message that waits for 6m0s, and all 10 handlers are busy with messages of many",
			"note tenant_paused of {p} for 1h0m0s: has tenant p paused: 1 message waits (queue tenant resume orders p)",
		}},
		"too few handlers beside a forgotten pause": {in(9, one, flow("p", 1, 26*time.Hour, paused), flow("a", 12, 6*time.Minute), flow("b", 12, 6*time.Minute)), []string{
			"warning old for 6m0s: has a message that waits for 6m0s, and all 10 handlers are busy with messages of many",
			"warning tenant_paused of {p} for 1d2h: has tenant p paused: 1 message waits, the oldest for 1d2h (queue tenant resume orders p)",
		}},
		"many pauses": {in(9, one, flow("a", 9, time.Hour, paused), flow("b", 8, 2*time.Hour, paused), flow("c", 7, 3*time.Hour, paused),
			flow("d", 6, 25*time.Hour, paused), flow("e", 5, 4*time.Hour, paused)), []string{
			"warning tenant_paused of {d} for 1d1h: has tenant d paused: 6 messages wait, the oldest for 1d1h (queue tenant resume orders d)",
			"note tenant_paused of {a} for 1h0m0s: has tenant a paused: 9 messages wait (queue tenant resume orders a)",
			"note tenant_paused of {b} for 2h0m0s: has tenant b paused: 8 messages wait (queue tenant resume orders b)",
			"note tenant_paused for 4h0m0s: has 2 more tenants paused (queue tenants orders)",
		}},
		"too few handlers": {in(9, one, flow("a", 12, 6*time.Minute), flow("b", 12, 6*time.Minute), flow("c", 12, 6*time.Minute)), []string{
			"warning old for 6m0s: has a message that waits for 6m0s, and all 10 handlers are busy with messages of many",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range OfQueue(c.stats) {
				text := fmt.Sprintf("%s %s", f.Severity, f.Code)
				if f.Tenant != "" {
					text += fmt.Sprintf(" of {%s}", f.Tenant)
				}
				text += fmt.Sprintf(" for %s: %s", readable.Duration(f.Waits), f.Text)
				if f.Command != "" {
					text += " (" + f.Command + ")"
				}
				got = append(got, text)
				if f.Command == "" && f.Advice == "" {
					t.Errorf("%+v does not say what to do", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestAges: each message has one reason, and each reason the age of its oldest one.
func TestAges(t *testing.T) {
	t.Parallel()
	flows := []queuestats.Flow{
		flow("a", 1, time.Second), flow("b", 1, 2*time.Second), flow("c", 1, time.Hour, func(f *queuestats.Flow) { f.Paused = true }),
		flow("d", 1, 3*time.Second, func(f *queuestats.Flow) { f.NotBefore, f.ByRate = noon.Add(time.Hour), true }),
		flow("e", 1, 4*time.Second, func(f *queuestats.Flow) { f.NotBefore = noon.Add(time.Hour) }),
		flow("f", 1, 5*time.Second, func(f *queuestats.Flow) { f.Held, f.InFlight, f.Limits.MaxInFlight = true, 5, 5 }),
		flow("g", 1, 6*time.Second, func(f *queuestats.Flow) { f.Held = true }), flow("h", 0, 0),
	}
	held := map[Why]time.Duration{ForPause: time.Hour, ForRate: 3 * time.Second, ForInFlight: 5 * time.Second, ForHandlers: 6 * time.Second, ForTurn: 2 * time.Second}
	paused := in(9, nil, flows...)
	paused.Paused = true
	refused := in(9, nil, flows...)
	refused.Refused = "READONLY"
	unread := in(9, nil, flow("a", 1, time.Minute), flow("c", 1, time.Hour, func(f *queuestats.Flow) { f.Paused = true }))
	for name, c := range map[string]struct {
		stats queuestats.Stats
		want  map[Why]time.Duration
	}{
		"a queue that is read":          {in(9, []queuestats.Reader{reads("w", 9, 9, 0)}, flows...), held},
		"no reader":                     {unread, map[Why]time.Duration{ForReader: time.Minute, ForPause: time.Hour}},
		"a server that takes no writes": {refused, map[Why]time.Duration{ForServer: time.Hour}},
		"a pause":                       {paused, map[Why]time.Duration{ForQueue: time.Hour}},
	} {
		got := Ages(c.stats)
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for why := range got {
			if !slices.Contains(Whys, why) || why.Words() == "" {
				t.Errorf("%s is no reason with words", why)
			}
		}
	}
}
