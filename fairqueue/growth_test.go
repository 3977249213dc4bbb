package fairqueue

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/redis/reqid"
)

// soaks is whether the long forms of tests run, on a machine that has nothing else to do.
var soaks = os.Getenv("MILLRACE_SOAK") != ""

// full returns the number of a soak, or the one of a short run.
func full(soak, short int) int {
	if soaks {
		return soak
	}
	return short
}

// parallel lets a test run beside others, unless it is a soak, which measures.
func parallel(t *testing.T) {
	t.Helper()
	if !soaks {
		t.Parallel()
	}
}

// TestGrowingQueue: while a queue grows by a million messages of 100,000 tenants, and is emptied again, a script call
// takes the server 5 ms at most, also while the server enlarges the table of its largest hash, which takes hundreds of
// calls. The soak judges 999 of 1,000 calls of each kind, on a machine that has nothing else to do. `make test` only does the
// same with fewer messages: no clock can tell a long call from one that a busy machine held up.
func TestGrowingQueue(t *testing.T) {
	parallel(t)
	for name, limits := range map[string]queuestats.Limits{
		"plain":       {},
		"with limits": {MaxInFlight: 1000, Rate: 1e5, MaxWaiting: 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			c := emptyCrowd(t, Config{}, full(100_000, 500), "10")
			if limits.Rate > 0 {
				c.write(1, Draft{})
				if err := c.q.Limits().Set(t.Context(), "", ownOf(limits)); err != nil {
					t.Fatal(err)
				}
			}
			c.growAndShrink(full(1_000_000, 3000))
		})
	}
}

// growAndShrink writes messages and takes them out, in calls of 100 and of one, and checks the cost of each call.
func (c *crowd) growAndShrink(messages int) {
	c.t.Helper()
	fields := func() int64 {
		n, err := do(c.t, c.q.run.Client, "HLEN", baseKey(c.q.name)+":hot").AsInt64()
		if err != nil {
			c.t.Fatal(err)
		}
		return n
	}
	largest := map[string]int64{} // fields of hot after the longest call of each kind
	measure := func(kind string, do func()) {
		c.t.Helper()
		var before time.Duration
		if k := c.costs[kind]; k != nil {
			before = k.most
		}
		c.measure(kind, do)
		if c.costs[kind].most > before {
			largest[kind] = fields()
		}
	}
	for n := 0; n < messages; n += callBudget + 1 {
		measure("write 100", func() { c.write(callBudget, Draft{}) })
		measure("write 1", func() { c.write(1, Draft{}) })
	}
	most := fields()
	for left := stats(c.t, c.q).Waiting; left > 0; {
		n := callBudget
		if left%(callBudget+1) == callBudget || left < callBudget {
			n = 1
		}
		var got []Message
		measure("read "+strconv.Itoa(n), func() { got = c.read(n, time.Hour) })
		measure("ack "+strconv.Itoa(n), func() { ack(c.t, c.q, got...) })
		left -= n
	}
	for _, kind := range slices.Sorted(maps.Keys(c.costs)) {
		k := c.costs[kind]
		c.t.Logf("%s: %d calls, median %v, 999 of 1,000 within %v, at most %v (%s, then with %d fields in hot)",
			kind, len(k.times), k.quantile(0.5), k.quantile(0.999), k.most, k.worst, largest[kind])
		if took := k.quantile(0.999); soaks && took > slowest {
			c.t.Errorf("%s takes the server %v in one call of 1,000, more than %v", kind, took, slowest)
		}
	}
	if left := fields(); left >= most || most < int64(messages)/2 {
		c.t.Errorf("hot had %d fields of %d messages, and has %d", most, messages, left)
	}
}

// size is how much a key holds: its members, and its bytes.
type size struct{ members, bytes int64 }

// sizes returns how much each key of a queue holds, but for wake: it has 64 tokens at most, and a TTL.
func sizes(t *testing.T, q *Queue) map[string]size {
	t.Helper()
	all, base := map[string]size{}, baseKey(q.name)
	for part := range dump(t, q) {
		if part == ":wake" {
			continue
		}
		kind, err := do(t, q.run.Client, "TYPE", base+part).ToString()
		if err != nil {
			t.Fatal(err)
		}
		var s size
		count := map[string]string{"hash": "HLEN", "zset": "ZCARD", "list": "LLEN"}[kind]
		if s.members, err = do(t, q.run.Client, count, base+part).AsInt64(); err != nil {
			t.Fatalf("%s of %s: %v", count, part, err)
		}
		if s.bytes, err = do(t, q.run.Client, "MEMORY", "USAGE", base+part, "SAMPLES", "0").AsInt64(); err != nil {
			t.Fatal(err)
		}
		all[part] = s
	}
	return all
}

// grown says which keys hold more than they did before. Beyond that, K may have each counter that a queue has, and hot and
// lanes a lane for each call that was under way at once, with an answer of 100 receipts. Redis keeps the table of a key
// that was large until some calls have used it.
func grown(before, after map[string]size) (more []string) {
	const counters, lanes, answer, bytes = 12, 16, 3 << 10, 4 << 10
	extra := map[string]int64{"": counters, ":hot": lanes, ":lanes": lanes}
	answers := map[string]int64{":hot": lanes * answer}
	for _, part := range slices.Sorted(maps.Keys(after)) {
		was, is := before[part], after[part]
		if is.members > was.members+extra[part] || is.bytes > was.bytes+bytes+answers[part] {
			more = append(more, fmt.Sprintf("K%s has %d members and %d bytes, %d and %d before", part, is.members, is.bytes, was.members, was.bytes))
		}
	}
	return more
}

// TestNothingGrows: after messages of many tenants with dedupe ids, deadlines, delays, limits and rates were handled, and
// upkeep has run, each key of the queue has as few members as it had after a few of them, and after some more messages as
// few bytes.
func TestNothingGrows(t *testing.T) {
	parallel(t)
	c := emptyCrowd(t, Config{DedupeWindow: time.Millisecond}, 0, "5000")
	q, ctx := c.q, t.Context()
	q.run.Lanes = &reqid.Lanes{} // the process's are shared with tests that run at the same time
	good := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	live := func(messages, tenants int) {
		t.Helper()
		c.tenants = tenants
		c.write(1, Draft{})
		good(q.Limits().Set(ctx, "", OwnLimits{MaxInFlight: new(1000), Rate: new(1e5), MaxWaiting: new(messages)}))
		own := func(do func(tenant string) error) {
			for i := 0; i < tenants; i += 10 {
				good(do(fmt.Sprint("tenant", i)))
			}
		}
		own(func(tenant string) error {
			return q.Limits().Set(ctx, tenant, OwnLimits{Weight: new(2.0), MaxShare: new(0.5)})
		})
		for n, shapes := 0, []Draft{{DedupeID: "d"}, {DedupeID: "d", TTL: time.Hour}, {DedupeID: "d", Delay: time.Millisecond}, {}}; n < messages; n += callBudget {
			c.write(callBudget, shapes[n/callBudget%len(shapes)])
		}
		for range messages / 2 / callBudget {
			ack(t, q, c.read(callBudget, time.Hour)...)
		}
		s := stats(t, q)
		c.consume(s.Waiting + s.Delayed)
		drained(t, q)
		own(func(tenant string) error { return q.Limits().Clear(ctx, tenant) })
		good(q.Limits().Clear(ctx, ""))
		passes(t, q.run.Client, 10*time.Millisecond) // windows and buckets
		for more, calls := 1, 0; more > 0; calls++ {
			var err error
			if more, err = q.tend(ctx, ""); err != nil || calls > messages {
				t.Fatalf("upkeep is not done after %d calls, %v", calls, err)
			}
		}
	}
	const some = 16 * callBudget
	live(some, some/10)
	before := sizes(t, q)
	live(full(1_000_000, 6000), full(100_000, 600))
	after := sizes(t, q)
	for _, part := range slices.Sorted(maps.Keys(after)) {
		is, was := after[part], before[part]
		t.Logf("K%-10s %d members, %d bytes; before %d, %d", part, is.members, is.bytes, was.members, was.bytes)
		if more := (size{is.members, was.bytes}); len(grown(before, map[string]size{part: more})) > 0 {
			t.Errorf("K%s has %d members when all is handled, %d before", part, is.members, was.members)
		}
	}
	for rounds := 0; ; rounds++ {
		more := grown(before, sizes(t, q))
		if len(more) == 0 {
			t.Logf("all keys are small after %d rounds of %d messages", rounds, some)
			break
		} else if rounds == 20 {
			t.Fatalf("after %d rounds of %d messages: %s", rounds, some, strings.Join(more, "; "))
		}
		live(some, some/10)
	}
	if wrong, err := q.Check(ctx); len(wrong) > 0 || err != nil {
		t.Errorf("the queue is wrong: %q, %v", wrong, err)
	}
}
