package fairqueue

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
	"github.com/millrace/millrace/schedule"
)

// jump is by how much the clock of these tests is ahead for three seconds.
const jump = 24 * time.Hour

// clockTest is a queue whose scripts have a clock that the test sets.
type clockTest struct {
	*Queue

	t     *testing.T
	start time.Time
}

// at sets the clock to d after the start.
func (c *clockTest) at(d time.Duration) {
	c.t.Helper()
	micros := strconv.FormatInt(c.start.Add(d).UnixMicro(), 10)
	want(c.t, "clock", nil, nil, do(c.t, c.run.Client, "SET", baseKey(c.name)+":clock", micros).Error())
}

// take reads and acknowledges all available messages, so due work is done too, and returns the bodies.
func (c *clockTest) take() string {
	c.t.Helper()
	var list []string
	for range 3 {
		if some := read(c.t, c.Queue, 50); len(some) > 0 {
			list = append(list, bodies(some))
			ack(c.t, c.Queue, some...)
		}
	}
	return strings.Join(list, " ")
}

// wants sets the clock and compares the available messages with bodies.
func (c *clockTest) wants(d time.Duration, bodies string) {
	c.t.Helper()
	c.at(d)
	if got := c.take(); got != bodies {
		c.t.Errorf("after %v there is %q, want %q", d, got, bodies)
	}
}

func (c *clockTest) draft(d Draft) string {
	c.t.Helper()
	d.Tenant = "a"
	id, err := c.Write(c.t.Context(), d)
	want(c.t, "write", nil, nil, err)
	return id
}

// numbers returns the record, and in its unit the time of a clock that is d after the start.
func (c *clockTest) numbers(d time.Duration) (record, float64) {
	c.t.Helper()
	there, _ := readRaw(c.t, c.Queue)
	return there.record, float64(c.start.Add(d).UnixMilli())
}

// clockRow is the steps before the clock is ahead, while it is, and when it is right again.
type clockRow struct{ before, ahead, after func(c *clockTest) }

// clockRows are waits and counts that could last as long as the clock is ahead, though it is ahead for three seconds only:
// before runs before that time, ahead within it, and after when the clock is right again.
var clockRows = map[string]clockRow{
	"a delay": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("long"), Delay: 2 * jump}) },
		func(c *clockTest) { c.draft(Draft{Body: []byte("x"), Delay: 10 * time.Second}) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(12*time.Second, "")
			c.wants(14*time.Second, "x")
			c.wants(2*jump-time.Second, "")
			c.wants(2*jump+time.Second, "long")
		},
	},
	"a delay that is written before the queue notices": {
		nil,
		func(c *clockTest) { c.draft(Draft{Body: []byte("later"), Delay: 4 * jump}) },
		func(c *clockTest) {
			c.draft(Draft{Body: []byte("x"), Delay: 10 * time.Second})
			c.draft(Draft{Body: []byte("long"), Delay: 2 * jump})
			c.wants(3*time.Second, "")
			c.wants(8*time.Second, "")
			c.wants(14*time.Second, "x")
			c.wants(2*jump-time.Second, "")
			c.wants(2*jump+6*time.Second, "long")
		},
	},
	"a delay that was moved back to a clock that is ahead, too": {
		nil,
		func(c *clockTest) {
			c.draft(Draft{Body: []byte("x"), Delay: 10 * time.Second})
			c.at(time.Hour)
			c.upkeep()
			c.at(jump)
			c.draft(Draft{Body: []byte("at once"), DedupeID: "d"}) // a call that does no due work
		},
		func(c *clockTest) {
			c.wants(3*time.Second, "at once")
			c.wants(14*time.Second, "x")
		},
	},
	"more delays than one call moves": {
		nil,
		func(c *clockTest) { writeAll(c.t, c.Queue, 1200, Draft{Tenant: "a", Delay: 10 * time.Second}) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.at(14 * time.Second)
			for range 1200 / 15 { // so many become due a call
				c.upkeep()
			}
			got := 0
			for range 12 {
				got += len(read(c.t, c.Queue, 100))
			}
			want(c.t, "messages", got, 1200, nil)
		},
	},
	"a retry": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("x")}) },
		func(c *clockTest) {
			nack(c.t, c.Queue, NackConfig{Delay: 10 * time.Second}, read(c.t, c.Queue, 1)...)
		},
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(12*time.Second, "")
			c.wants(14*time.Second, "x")
		},
	},
	"what a reader has that died": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("x")}) },
		func(c *clockTest) { want(c.t, "read", len(read(c.t, c.Queue, 1)), 1, nil) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(30*time.Second, "")
			c.wants(40*time.Second, "x")
		},
	},
	"what a reader has when the clock goes back again": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("x")}) },
		func(c *clockTest) { want(c.t, "read", len(read(c.t, c.Queue, 1)), 1, nil) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(20*time.Second, "")
			c.wants(10*time.Second, "")
			c.wants(32*time.Second, "")
			c.wants(34*time.Second, "x")
		},
	},
	"what a reader has for a short time that died": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("x")}) },
		func(c *clockTest) {
			_, err := c.Read(c.t.Context(), ReadConfig{Visibility: 5 * time.Second})
			want(c.t, "read", nil, nil, err)
		},
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(7*time.Second, "")
			c.wants(9*time.Second, "x")
		},
	},
	"a rate": {
		func(c *clockTest) {
			limit(c.t, c.Queue, "", queuestats.Limits{Rate: 1, Burst: 1})
			write(c.t, c.Queue, "a:1 a:2 a:3 a:4")
		},
		func(c *clockTest) { want(c.t, "messages", c.take(), "1", nil) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(4100*time.Millisecond, "2")
			c.wants(5200*time.Millisecond, "3")
		},
	},
	"a throttle": {
		func(c *clockTest) { c.draft(Draft{Body: []byte("x")}) },
		func(c *clockTest) {
			want(c.t, "throttle", nil, nil, throttle(c.t, c.Queue, read(c.t, c.Queue, 1)[0], 10*time.Second))
		},
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			c.wants(12*time.Second, "")
			c.wants(14*time.Second, "x")
		},
	},
	"a deadline":                          deadlineRow(1),
	"a deadline of a message with a cost": deadlineRow(7),
	"a dedupe id": {
		nil,
		func(c *clockTest) { c.draft(Draft{Body: []byte("x"), DedupeID: "id"}) },
		func(c *clockTest) {
			c.wants(10*time.Second, "x")
			c.draft(Draft{Body: []byte("y"), DedupeID: "id"})
			c.wants(12*time.Second, "")
			c.at(315 * time.Second)
			c.draft(Draft{Body: []byte("z"), DedupeID: "id"})
			if got := c.take(); !strings.Contains(got, "z") {
				c.t.Errorf("a write after the window is a duplicate: there is %q", got)
			}
		},
	},
	"a batch": {
		nil,
		func(c *clockTest) {
			id, err := c.Batches().Create(c.t.Context(), 0, Draft{Tenant: "a"})
			want(c.t, "create", nil, nil, err)
			want(c.t, "write", nil, nil, second(c.Write(c.t.Context(), Draft{Tenant: "a", Batch: id})))
		},
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			for b, err := range c.Batches().All(c.t.Context()) {
				want(c.t, "batches", nil, nil, err)
				if late := b.Until.Sub(c.start) - 30*24*time.Hour; late > time.Minute {
					c.t.Errorf("a batch is done by a wrong clock: %s too late", late)
				}
			}
			there, _ := readRaw(c.t, c.Queue)
			want(c.t, "batches", len(there.batches), 1, nil)
			want(c.t, "what is wrong", there.wrongs(), "", nil)
		},
	},
	"a batch that was cancelled": {
		nil,
		func(c *clockTest) {
			id, err := c.Batches().Create(c.t.Context(), 0, Draft{Tenant: "a"})
			want(c.t, "create", nil, nil, err)
			for range 2 {
				want(c.t, "write", nil, nil, second(c.Write(c.t.Context(), Draft{Tenant: "a", Batch: id})))
			}
			want(c.t, "read", nil, nil, second(c.Read(c.t.Context(), ReadConfig{Visibility: 5 * time.Second})))
			want(c.t, "cancel", nil, nil, second(c.Batches().Cancel(c.t.Context(), id)))
			c.at(jump + 6*time.Second)
			c.draft(Draft{Body: []byte("other"), DedupeID: "d"}) // a call that does no due work
		},
		func(c *clockTest) {
			c.at(3 * time.Second)
			c.upkeep() // it moves the time of the batch, and ends a message
			there, _ := readRaw(c.t, c.Queue)
			want(c.t, "what is wrong", there.wrongs(), "", nil)
			for _, b := range there.batches {
				want(c.t, "batch", []any{b.State, b.Left}, []any{BatchCancelled, 1}, nil)
			}
		},
	},
	"a dead reader": {
		func(c *clockTest) { c.draft(Draft{}) },
		func(c *clockTest) { c.beats("dead", 5) },
		func(c *clockTest) {
			for d := 3 * time.Second; d < 25*time.Second; d += 5 * time.Second {
				c.at(d)
				c.beats("living", 2)
			}
			got, _ := c.numbers(0)
			want(c.t, "handlers", got.capacity, 2.0, nil)
		},
	},
	"when other tenants were served": {
		func(c *clockTest) { write(c.t, c.Queue, "a:1 b:1") },
		func(c *clockTest) { c.take() },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			if got, now := c.numbers(3 * time.Second); got.since > now || got.others > now || got.used > now {
				c.t.Errorf("the last deliveries were at %.0f and %.0f and the last call at %.0f, want none after %.0f", got.since, got.others, got.used, now)
			}
		},
	},
	"the age of a dead letter": {
		func(c *clockTest) { c.draft(Draft{}) },
		func(c *clockTest) { nack(c.t, c.Queue, NackConfig{Dead: true}, read(c.t, c.Queue, 1)...) },
		func(c *clockTest) {
			c.wants(3*time.Second, "")
			there, _ := readRaw(c.t, c.Queue)
			_, now := c.numbers(3 * time.Second)
			for id, at := range there.dead {
				if id != "" && at > now {
					c.t.Errorf("a message died at %.0f, want no later than %.0f", at, now)
				}
			}
		},
	},
	"a lane that upkeep looks at": {
		func(c *clockTest) { c.draft(Draft{}) },
		func(c *clockTest) { c.upkeep() },
		func(c *clockTest) {
			c.at(3 * time.Second)
			c.upkeep()
			there, _ := readRaw(c.t, c.Queue)
			lanes := 0
			for field := range there.hot {
				if strings.HasPrefix(field, "l") {
					lanes++
				}
			}
			if lanes == 0 {
				c.t.Error("the answers of all lanes are forgotten, want those of the last ten minutes")
			}
		},
	},
	"a lane that was used ahead": {
		nil,
		func(c *clockTest) { c.draft(Draft{}) },
		func(c *clockTest) {
			for d := 3 * time.Second; d < 800*time.Second; d += 50 * time.Second {
				c.at(d)
				c.upkeep()
			}
			there, _ := readRaw(c.t, c.Queue)
			for field := range there.hot {
				if strings.HasPrefix(field, "l") {
					c.t.Errorf("the answer of a lane that rests is kept: %q", field)
				}
			}
		},
	},
	"a request that its client repeats": {
		func(c *clockTest) { c.draft(Draft{}) },
		func(c *clockTest) { c.seeded("x") },
		func(c *clockTest) {
			c.at(3 * time.Second)
			c.seeded("x")
			c.seeded("y")
			c.seeded("x")
			c.wants(4*time.Second, " x y")
		},
	},
}

// deadlineRow is that of a message with a deadline and that cost.
func deadlineRow(cost int) clockRow {
	return clockRow{
		nil,
		func(c *clockTest) { c.draft(Draft{Body: []byte("x"), TTL: time.Minute, Cost: cost}) },
		func(c *clockTest) {
			held := read(c.t, c.Queue, 1)
			want(c.t, "messages", bodies(held), "x", nil)
			nack(c.t, c.Queue, NackConfig{}, held...)
			c.draft(Draft{Body: []byte("y"), TTL: jump})
			c.wants(70*time.Second, "y")
		},
	}
}

func (c *clockTest) beats(name string, handlers int) {
	c.t.Helper()
	_, err := c.beat(c.t.Context(), time.Hour, readerOf(reader{id: name, handlers: float64(handlers)}), nil)
	want(c.t, "beat", nil, nil, err)
}

func (c *clockTest) upkeep() {
	c.t.Helper()
	_, err := c.tend(c.t.Context(), "")
	want(c.t, "upkeep", nil, nil, err)
}

// seeded writes a message in a request that its client repeats.
func (c *clockTest) seeded(body string) {
	c.t.Helper()
	_, err := c.WriteBatch(reqid.With(c.t.Context(), body), Draft{Tenant: "a", Body: []byte(body)})
	want(c.t, "write", nil, nil, err)
}

// TestClockIsAheadForAMoment: nothing waits for, or counts until, an instant that only the wrong clock named.
func TestClockIsAheadForAMoment(t *testing.T) {
	t.Parallel()
	for name, row := range clockRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClockTest(t)
			c.at(0)
			if row.before != nil {
				row.before(c)
			}
			c.at(jump)
			if row.ahead != nil {
				row.ahead(c)
			}
			c.at(3 * time.Second)
			row.after(c)
			if wrong, err := c.Check(t.Context()); len(wrong) > 0 || err != nil {
				t.Errorf("the queue is wrong: %q, %v", wrong, err)
			}
		})
	}
}

// TestRewindGoesOnBehindRightInstants: more delays than one call looks at were named by the right clock, many for one millisecond, and
// the one that was named while the clock was ahead ends after them.
func TestRewindGoesOnBehindRightInstants(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	for range 7 {
		_, err := c.WriteBatch(t.Context(), slices.Repeat([]Draft{{Tenant: "a", Delay: 30 * time.Hour}}, 100)...)
		want(t, "write", nil, nil, err)
	}
	for i := range 6 {
		_, err := c.WriteBatch(t.Context(), slices.Repeat([]Draft{{Tenant: "a", Delay: 30*time.Hour + time.Duration(i)*time.Minute}}, 100)...)
		want(t, "write", nil, nil, err)
	}
	c.at(jump)
	id := c.draft(Draft{Delay: 20 * time.Hour})
	c.at(3 * time.Second)
	for range 10 {
		c.upkeep()
	}
	c.at(20*time.Hour + 4*time.Second)
	c.upkeep()
	got, err := c.Read(t.Context(), ReadConfig{Max: 100})
	if err != nil || len(got) != 1 || got[0].ID != id {
		t.Errorf("read %d messages, %v, want the one that waited for 20 hours", len(got), err)
	}
}

// TestRewindBeginsAnew: the clock is ahead once more before all instants are moved back.
func TestRewindBeginsAnew(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	for range 7 {
		_, err := c.WriteBatch(t.Context(), slices.Repeat([]Draft{{Tenant: "a", Delay: 30 * time.Hour}}, 100)...)
		want(t, "write", nil, nil, err)
	}
	c.at(jump)
	c.draft(Draft{Delay: 20 * time.Hour})
	c.at(3 * time.Second)
	c.upkeep() // looks at 500 delays
	c.at(jump + time.Minute)
	c.draft(Draft{TTL: time.Hour})
	c.at(6 * time.Second)
	for range 10 {
		c.upkeep()
	}
	c.at(time.Hour + 10*time.Second)
	c.upkeep()
	if s := stats(t, c.Queue); s.Counters.Expired != 1 {
		t.Errorf("%d messages have expired, want the one that lives for an hour", s.Counters.Expired)
	}
}

// TestRewindOfLargeMessages: deadlines of more than a mebibyte of messages are moved back, in several calls.
func TestRewindOfLargeMessages(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(jump)
	body := bytes.Repeat([]byte("x"), 200_000)
	for range 12 {
		c.draft(Draft{Body: body, Delay: time.Minute, TTL: time.Hour})
	}
	c.at(3 * time.Second)
	for range 10 {
		c.upkeep()
	}
	c.at(time.Hour + 4*time.Second)
	for range 10 {
		c.upkeep()
	}
	if n, err := c.Len(t.Context()); n != 0 || err != nil {
		t.Errorf("%d messages, %v, want none: each lives for an hour", n, err)
	}
}

// TestLanesOutliveJumps: a lane that was used a moment ago is known, however often the clock jumps meanwhile.
func TestLanesOutliveJumps(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	id := c.draft(Draft{})
	for _, jump := range []time.Duration{time.Hour, 0, 24 * time.Hour, 0, -time.Hour, 0, time.Hour, 24 * time.Hour, -24 * time.Hour, 1, time.Hour} {
		c.at(jump)
		c.upkeep()
		there, _ := readRaw(t, c.Queue)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(there.hot)), func(field string) bool { return strings.HasPrefix(field, "l") }) {
			t.Fatalf("no lane is known after a jump of %v, want that of the write of %s", jump, id)
		}
	}
}

func newClockTest(t *testing.T) *clockTest {
	t.Helper()
	return newClockTestOn(t, redistest.Shared(t).Client(t), Config{MaxAttempts: 100})
}

func newClockTestOn(t *testing.T, client rueidis.Client, cfg Config) *clockTest {
	t.Helper()
	return newClockTestOf(t, client, cfg, library)
}

func newClockTestOf(t *testing.T, client rueidis.Client, cfg Config, of *script.Library) *clockTest {
	t.Helper()
	scripts := clocked(t, of)
	scripttest.Load(t, client, scripts)
	c := &clockTest{openOn(t, client, redistest.Name(t), cfg), t, time.Now().Truncate(time.Second)}
	c.run.Scripts, c.shared.run.Scripts = scripts, scripts
	return c
}

// TestExtendedWhileTheClockIsAhead: a message that a dead reader extended comes again at the end of the visibility it asked for, by the
// clock that was right when it asked or is right now. An extension by a right clock keeps its end.
func TestExtendedWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for _, ahead := range []time.Duration{time.Minute, hour, 11 * hour, jump} {
		for name, row := range map[string]struct {
			read       time.Duration // the visibility of the delivery
			at, extend time.Duration // when it is extended, and for how long
			end        time.Duration // when it comes again
		}{
			"after a read before":          {hour, ahead, 20 * time.Second, 23 * time.Second},
			"after a short read before":    {5 * time.Second, ahead, 20 * time.Second, 23 * time.Second},
			"for long":                     {hour, ahead, 6 * hour, 6*hour + 3*time.Second},
			"by the right clock before":    {hour, 0, 12 * hour, 12 * hour},
			"by the right clock after":     {13 * time.Second, 3 * time.Second, 12 * hour, 12*hour + 3*time.Second},
			"a little by the right clock":  {13 * time.Second, 3 * time.Second, 20 * time.Second, 23 * time.Second},
			"after a read ahead":           {-hour, ahead, 20 * time.Second, 23 * time.Second},
			"by the right clock long ago":  {hour, -6 * hour, 12 * hour, 6 * hour},
			"by the right clock, but over": {hour, 0, 2 * time.Second, 3 * time.Second},
		} {
			t.Run(fmt.Sprint(name, " ", ahead), func(t *testing.T) {
				t.Parallel()
				c := newClockTest(t)
				c.at(min(0, row.at))
				c.draft(Draft{Body: []byte("x")})
				if row.read < 0 {
					c.at(ahead)
				}
				held, err := c.Read(t.Context(), ReadConfig{Visibility: row.read.Abs()})
				want(t, "read", len(held), 1, err)
				extend := func() {
					c.at(row.at)
					good, err := c.Extend(t.Context(), row.extend, held[0].Receipt)
					want(t, "good", good, []bool{true}, err)
				}
				if row.at <= 0 {
					extend()
				}
				c.at(ahead)
				c.draft(Draft{Tenant: "a", Delay: 2 * jump}) // a call by this clock
				if row.at == ahead {
					extend()
				}
				if row.at == 3*time.Second {
					extend()
				}
				if row.end > 3*time.Second {
					c.wants(3*time.Second, "")
					c.wants(row.end-time.Second, "")
				}
				c.wants(row.end+time.Millisecond, "x")
				if wrong, err := c.Check(t.Context()); len(wrong) > 0 || err != nil {
					t.Errorf("the queue is wrong: %q, %v", wrong, err)
				}
			})
		}
	}
}

// TestServerWhoseClockIsBehind: after a failover to it, times in messages written before a reader notices last as long as asked.
func TestServerWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(10 * time.Second)
	first := c.draft(Draft{Body: []byte("first")})
	want(t, "messages", c.take(), "first", nil)
	c.at(0)
	id := c.draft(Draft{Body: []byte("delayed"), Delay: 20 * time.Second})
	c.draft(Draft{Body: []byte("expiring"), TTL: 20 * time.Second})
	c.draft(Draft{Body: []byte("deduped"), DedupeID: "id"})
	if id <= first {
		t.Errorf("a message with the id %s was written after %s", id, first)
	}
	c.upkeep()
	c.wants(19*time.Second, "expiring deduped")
	c.wants(20*time.Second, "delayed")
	c.at(defaultDedupeWindow - time.Second)
	c.draft(Draft{Body: []byte("again"), DedupeID: "id"})
	want(t, "messages", c.take(), "", nil)
	c.at(defaultDedupeWindow + time.Second)
	c.draft(Draft{Body: []byte("new"), DedupeID: "id"})
	want(t, "messages", c.take(), "new", nil)
}

// TestDelayAfterAClockThatOnlyReadersSaw: a delay that is written before a reader notices that the clock went back is as long
// as it is to be, though no message was written while the clock was ahead.
func TestDelayAfterAClockThatOnlyReadersSaw(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	c.draft(Draft{Body: []byte("first")})
	c.at(jump)
	want(t, "messages", c.take(), "first", nil)
	c.at(time.Second)
	c.draft(Draft{Body: []byte("delayed"), Delay: 10 * time.Second})
	c.draft(Draft{Body: []byte("expiring"), TTL: 5 * time.Second, Delay: 8 * time.Second})
	c.upkeep()
	c.wants(10*time.Second, "")
	c.wants(12*time.Second, "delayed")
	want(t, "expired", stats(t, c.Queue).Counters.Expired, int64(1), nil)
}

// TestIDsGrow while the clock jumps and goes back.
func TestIDsGrow(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	var ids []string
	for _, d := range []time.Duration{0, jump, jump + time.Second, time.Second, -time.Hour, jump / 2, 2 * jump, 0} {
		c.at(d)
		ids = append(ids, write(t, c.Queue, "a:1 b:2")...)
		ids = append(ids, c.draft(Draft{TTL: time.Hour}))
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	want(t, "ids", ids, sorted, nil)
}

// TestScheduleAfterAClockAhead: a schedule that ticked while the clock was ahead goes on with the next tick by the clock,
// and no tick has two messages for a clock that goes back a little.
func TestScheduleAfterAClockAhead(t *testing.T) {
	t.Parallel()
	const interval = time.Hour
	for name, row := range map[string]struct {
		ahead   time.Duration
		repeats bool
	}{"a day": {jump, true}, "half a minute": {30 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClockTest(t)
			c.at(0)
			setSchedule(t, c.Queue, Schedule{Name: "x", Spec: every(t, interval), Missed: schedule.Once, Draft: Draft{Tenant: "a"}})
			planned := scheduleOf(t, c.Queue, "x").Next
			keep := func(now time.Time) { // as keepSchedules does, which asks the server what time it is
				t.Helper()
				c.at(now.Sub(c.start))
				c.take()
				_, entries, err := c.schedules(t.Context(), "x")
				want(t, "schedules", len(entries), 1, err)
				want(t, "keep", nil, nil, c.keepSchedule(t.Context(), now, entries[0]))
			}
			before := planned.Add(-10 * time.Second)
			keep(before.Add(row.ahead))
			want(t, "ticks while the clock is ahead", scheduleOf(t, c.Queue, "x").Ticks, int64(1), nil)
			keep(before)
			next := planned
			if !row.repeats {
				next = planned.Add(interval)
			}
			want(t, "next tick", scheduleOf(t, c.Queue, "x").Next.UTC(), next.UTC(), nil)
			due, err := do(t, c.run.Client, "ZSCORE", baseKey(c.name)+":ticks", "x").AsFloat64()
			want(t, "looked for", due, float64(next.UnixMilli()), err)
			keep(next)
			want(t, "ticks", scheduleOf(t, c.Queue, "x").Ticks, int64(2), nil)
		})
	}
}

// TestKeepersLookAfterAClockAhead: a reader has the keepers look at schedules that wait for an instant of the wrong clock.
func TestKeepersLookAfterAClockAhead(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	setSchedule(t, c.Queue, Schedule{Name: "x", Spec: every(t, time.Hour), Draft: Draft{Tenant: "a"}})
	_, entries, err := c.schedules(t.Context(), "x")
	want(t, "schedules", len(entries), 1, err)
	c.at(jump)
	want(t, "keep", nil, nil, c.keepSchedule(t.Context(), c.start.Add(jump), entries[0]))
	c.at(-time.Second) // the keeper asks the server what time it is, which is not before that
	c.take()
	if next := scheduleOf(t, c.Queue, "x").Next; next.After(time.Now().Add(time.Hour)) {
		t.Errorf("the next tick is at %v, want within the hour", next)
	}
}

// TestBeatExtendsWhatIsOld: a consumer extends a delivery once a sixth of its visibility has passed, or if it ends later than
// it may; [Queue.Extend] at once; and each says which deliveries are stale.
func TestBeatExtendsWhatIsOld(t *testing.T) {
	t.Parallel()
	c := newClockTest(t)
	c.at(0)
	write(t, c.Queue, "a:1 a:2")
	both := read(t, c.Queue, 2)
	handles := []receipt{both[0].receipt(), both[1].receipt()}
	ends := func() time.Duration {
		t.Helper()
		there, _ := readRaw(t, c.Queue)
		ms, err := strconv.ParseInt(there.hot[handles[0].handle()][16:29], 10, 64)
		want(t, "end", nil, nil, err)
		return time.UnixMilli(ms).Sub(c.start.Truncate(time.Millisecond))
	}
	consumer := readerOf(reader{id: "c", handlers: 2})
	for _, step := range []struct {
		at     time.Duration
		of     *registration
		extend bool
	}{
		{4 * time.Second, consumer, false},
		{4 * time.Second, nil, true},
		{8 * time.Second, consumer, false},
		{9*time.Second + time.Millisecond, consumer, true},
		{-time.Hour, consumer, true}, // the clock was ahead
	} {
		c.at(step.at)
		before := ends()
		good, err := c.beat(t.Context(), defaultVisibility, step.of, handles)
		want(t, "good", good, []bool{true, true}, err)
		after := before
		if step.extend {
			after = step.at + defaultVisibility
		}
		want(t, fmt.Sprintf("the end at %v", step.at), ends(), after, nil)
	}
	_, err := c.Cancel(t.Context(), both[1].ID)
	want(t, "cancel", nil, nil, err)
	good, err := c.beat(t.Context(), defaultVisibility, consumer, handles)
	want(t, "good after a cancel", good, []bool{true, false}, err)
}
