package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// crowd is a queue with many messages, and the cost of each kind of call to its server.
type crowd struct {
	t       *testing.T
	server  *redistest.Server
	q       *Queue
	names   map[string]string // of scripts, by digest
	costs   map[string]*cost  // by kind of call
	tenants int
	next    int // tenant to write for

	messages int // that wait
}

// cost is the server's cost of the calls of one kind.
type cost struct {
	times    []time.Duration // the server's time of each script call, or its CPU time if that is less: a busy machine halts it
	most     time.Duration   // the longest
	worst    string          // the script of that
	commands int             // that scripts made in a round, at least
}

// median is the median of the calls that are not shorter than half of the longest usual one:
// the last page of many is short.
func (c *cost) median() time.Duration {
	slices.Sort(c.times)
	usual := c.times[len(c.times)*3/4]
	long := c.times[slices.IndexFunc(c.times, func(d time.Duration) bool { return d >= usual/2 }):]
	return long[len(long)/2]
}

// tail is the longest time of nine in ten calls: other machines on the same hardware hold some up,
// and Redis itself does while it enlarges the table of a large hash.
func (c *cost) tail() time.Duration { return c.quantile(0.9) }

// quantile is the longest time of so large a share of the calls.
func (c *cost) quantile(share float64) time.Duration {
	slices.Sort(c.times)
	return c.times[int(float64(len(c.times)-1)*share)]
}

// emptyCrowd returns a queue on a server of its own, in which nothing waits. Its server logs calls longer than so many
// microseconds.
func emptyCrowd(t *testing.T, cfg Config, tenants int, slower string) *crowd {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Args: []string{"--slowlog-max-len", "100000", "--slowlog-log-slower-than", slower}})
	c := &crowd{t: t, server: server, tenants: tenants, names: map[string]string{}, costs: map[string]*cost{}}
	c.q = openOn(t, server.Client(t), "x", cfg)
	scripttest.Load(t, c.q.run.Client, library)
	for _, s := range library.Scripts() {
		c.names[s.SHA()] = s.Name()
	}
	return c
}

// newCrowd fills a queue on a server of its own: messages that wait, a twentieth as many that
// are delayed, in flight or dead, and as many that wait and have a deadline and a dedupe id.
func newCrowd(t *testing.T, cfg Config, messages, tenants int) *crowd {
	t.Helper()
	c := emptyCrowd(t, cfg, tenants, "10000")
	c.messages = messages
	write := func(n int, shape Draft) {
		t.Helper()
		for ; n > 0; n -= maxRead {
			c.write(min(n, maxRead), shape)
		}
	}
	rest := messages / 20
	write(2*rest, Draft{})
	if err := c.q.Dead().Keep(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	for n := rest; n > 0; n -= maxRead {
		c.dead(c.read(min(n, maxRead), time.Hour))
		c.read(min(n, maxRead), time.Hour)
	}
	write(rest, Draft{Delay: time.Hour})
	write(messages-rest, Draft{})
	write(rest, Draft{TTL: time.Hour, DedupeID: "d"}) // behind the messages to read, since they cost more
	if s := stats(t, c.q); s.Waiting != messages || s.InFlight != rest || s.Dead != rest || s.Delayed != rest {
		t.Fatalf("the queue has %d, %d, %d, %d messages, want %d and thrice %d", s.Waiting, s.InFlight, s.Dead, s.Delayed, messages, rest)
	}
	if err := do(t, c.q.run.Client, "CONFIG", "SET", "slowlog-log-slower-than", "10").Error(); err != nil {
		t.Fatal(err)
	}
	return c
}

// write writes n messages for as many tenants, and returns their ids.
func (c *crowd) write(n int, shape Draft) []string {
	c.t.Helper()
	drafts := make([]Draft, n)
	for i := range drafts {
		c.next++
		drafts[i] = shape
		drafts[i].Tenant, drafts[i].Body = fmt.Sprint("tenant", c.next%c.tenants), []byte(strings.Repeat("x", 100))
		if shape.DedupeID != "" {
			drafts[i].DedupeID = strconv.Itoa(c.next)
		}
	}
	written, err := c.q.WriteBatch(c.t.Context(), drafts...)
	if err != nil {
		c.t.Fatal(err)
	}
	ids := make([]string, n)
	for i, w := range written {
		ids[i] = w.ID
	}
	return ids
}

func (c *crowd) read(n int, visibility time.Duration) []Message {
	c.t.Helper()
	messages, err := c.q.Read(c.t.Context(), ReadConfig{Max: n, Visibility: visibility})
	if err != nil || len(messages) != n {
		c.t.Fatalf("read %d of %d: %v", len(messages), n, err)
	}
	return messages
}

func (c *crowd) dead(messages []Message) {
	c.t.Helper()
	n, err := c.q.Nack(c.t.Context(), NackConfig{Dead: true}, receipts(messages)...)
	want(c.t, "dead", n, len(messages), err)
}

// measure adds the cost of the calls in do to the costs of a kind.
func (c *crowd) measure(kind string, do func()) {
	c.t.Helper()
	c.slowlog("RESET")
	commands := c.commands()
	spent := c.spent()
	do()
	spent = c.spent() - spent
	allCommands := c.commands()
	if c.costs[kind] == nil {
		c.costs[kind] = &cost{commands: 1 << 30}
	}
	all := c.costs[kind]
	// A short call that is refused adds a call and few commands: the least of all rounds has none.
	all.commands = min(all.commands, allCommands-commands)
	for _, one := range c.slow() {
		took := min(one.took, spent)
		all.times = append(all.times, took)
		if took > all.most {
			all.most, all.worst = took, one.script
		}
	}
}

// scriptCall is a call of a script that took the server so long.
type scriptCall struct {
	script string
	took   time.Duration
}

// slow returns the script calls that are in the server's log of slow ones.
func (c *crowd) slow() (calls []scriptCall) {
	c.t.Helper()
	entries, err := c.slowlog("GET", "-1").ToArray()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, entry := range entries {
		fields, err := entry.ToArray()
		if err != nil {
			c.t.Fatal(err)
		}
		us, _ := fields[2].AsInt64() // as every server has it
		args, _ := fields[3].AsStrSlice()
		if len(args) > 1 && c.names[args[1]] != "" {
			calls = append(calls, scriptCall{c.names[args[1]], time.Duration(us) * time.Microsecond})
		}
	}
	return calls
}

func (c *crowd) slowlog(args ...string) rueidis.RedisResult {
	c.t.Helper()
	return do(c.t, c.q.run.Client, append([]string{"SLOWLOG"}, args...)...)
}

// commands returns how many commands scripts have run, with a few of the library.
func (c *crowd) commands() (inner int) {
	c.t.Helper()
	for name, line := range c.server.Info("commandstats") {
		var n int
		if _, err := fmt.Sscanf(line, "calls=%d,", &n); err != nil {
			c.t.Fatal(err)
		}
		switch name {
		case "cmdstat_evalsha", "cmdstat_evalsha_ro", "cmdstat_info", "cmdstat_slowlog|get", "cmdstat_slowlog|reset":
		default:
			inner += n
		}
	}
	return inner
}

// spent returns the CPU time of the thread that runs the server's commands.
func (c *crowd) spent() (d time.Duration) {
	c.t.Helper()
	info := c.server.Info("cpu")
	for _, part := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		seconds, err := strconv.ParseFloat(info[part], 64)
		if err != nil {
			c.t.Fatalf("%s: %v", part, err)
		}
		d += time.Duration(seconds * float64(time.Second))
	}
	return d
}

// round makes each kind of call, for n messages where it takes many, and leaves in the queue as
// many as there were.
func (c *crowd) round(n int) {
	c.t.Helper()
	t, ctx, q := c.t, c.t.Context(), c.q
	good := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	var ids, late []string
	var got []Message
	c.measure("write", func() { ids = c.write(n, Draft{}) })
	c.measure("write with a delay", func() { late = c.write(n, Draft{Delay: time.Hour}) })
	c.measure("browse what is set aside", func() { c.browse(BrowseConfig{State: Delayed, Max: n}) })
	c.measure("cancel what is set aside", func() { c.cancel(late, Delayed) })
	c.measure("browse what waits", func() { c.browse(BrowseConfig{Max: n}) })
	c.measure("browse a tenant", func() { c.browse(BrowseConfig{Max: n, Tenant: "tenant7"}) })
	c.measure("cancel what waits", func() { c.cancel(ids, Waiting) })
	c.measure("read behind what was cancelled", func() { got = c.read(1, time.Hour) })
	ack(t, q, got...)
	c.write(1, Draft{})
	c.measure("write with deadline and dedupe id", func() { c.write(n, Draft{TTL: time.Hour, DedupeID: "d"}) })
	c.rest()
	c.measure("read", func() { got = c.read(n, time.Hour) })
	c.measure("extend", func() {
		_, err := q.Extend(ctx, time.Hour, receipts(got)...)
		good("Extend", err)
	})
	c.measure("browse what is in flight", func() { c.browse(BrowseConfig{State: InFlight, Max: n}) })
	c.measure("nack", func() {
		_, err := q.Nack(ctx, NackConfig{}, receipts(got)...)
		good("Nack", err)
	})
	got = c.read(n, time.Hour)
	c.measure("nack, dead", func() { c.dead(got) })
	c.measure("browse what is dead", func() {
		for _, err := range q.Dead().All(ctx) {
			good("Dead", err)
			break
		}
	})
	ids = ids[:0]
	for _, m := range got {
		ids = append(ids, m.ID)
	}
	c.measure("redrive", func() {
		redriven, err := q.Dead().Redrive(ctx, ids...)
		want(t, "redriven", redriven, n, err)
	})
	got = c.read(n, time.Hour)
	c.rest()
	c.measure("ack", func() { ack(t, q, got...) })
	c.write(n, Draft{})
	got = c.read(n, time.Hour)
	c.dead(got)
	ids = ids[:0]
	for _, m := range got {
		ids = append(ids, m.ID)
	}
	c.measure("purge", func() {
		purged, err := q.Dead().Purge(ctx, ids...)
		want(t, "purged", purged, n, err)
	})
	if q.cfg.Streams == 0 {
		c.measure("limit", func() { good("Limits.Set", setWeight(q, ctx, "tenant5", 1)) })
	}
	c.measure("set", func() {
		good("Pause", q.Pause(ctx))
		good("Resume", q.Resume(ctx))
	})
	c.measure("consume", func() { c.consume(min(n, 20)) })
	c.due(n)
}

// due has messages become due, expire and come back, and the queue do so.
func (c *crowd) due(n int) {
	c.t.Helper()
	c.write(n, Draft{Delay: time.Millisecond})
	c.write(n, Draft{TTL: time.Millisecond})
	c.read(n, minVisibility)
	passes(c.t, c.q.run.Client, 2*minVisibility)
	for more := int64(1); more > 0; {
		c.measure("tend", func() {
			reply, err := c.q.call(c.t.Context(), "tend", "")
			if err != nil {
				c.t.Fatal(err)
			}
			more = reply.Int()
		})
	}
	c.level()
}

// rest does what is due, as long as the deliveries of a large crowd grow old: a read or an acknowledgement would do a part of it.
func (c *crowd) rest() {
	c.t.Helper()
	for more := int64(1); more > 0; {
		reply, err := c.q.call(c.t.Context(), "tend", "")
		if err != nil {
			c.t.Fatal(err)
		}
		more = reply.Int()
	}
}

// level has as many messages wait as the queue had at first.
func (c *crowd) level() {
	c.t.Helper()
	for {
		more := stats(c.t, c.q).Waiting - c.messages
		switch {
		case more > 0:
			ack(c.t, c.q, c.read(min(maxRead, more), time.Hour)...)
		case more < 0:
			c.write(min(maxRead, -more), Draft{})
		default:
			return
		}
	}
}

func (c *crowd) browse(cfg BrowseConfig) {
	c.t.Helper()
	if _, _, err := c.q.Browse(c.t.Context(), cfg); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crowd) cancel(ids []string, from State) {
	c.t.Helper()
	places, err := c.q.Cancel(c.t.Context(), ids...)
	want(c.t, "cancelled from", places, slices.Repeat([]State{from}, len(ids)), err)
}

// consume has handlers work off n messages.
func (c *crowd) consume(n int) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	var handled atomic.Int64
	err := c.q.Consume(ctx, ConsumeConfig{Concurrency: 10}, func(context.Context, Message) error {
		if int(handled.Add(1)) == n {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		c.t.Fatal(err)
	}
}

// TestLargeQueueCostsAsMuch: a call makes as many commands however many messages wait in however
// many flows. How long they take is for the soak.
func TestLargeQueueCostsAsMuch(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for name, cfg := range crowds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Streams > 0 {
				cfg.Streams = 64 // so that flows of the small one have messages in backlog, too
			}
			small, large := newCrowd(t, cfg, 2200, 1100), newCrowd(t, cfg, 20_000, 10_000)
			for range 4 {
				small.round(20)
				large.round(20)
			}
			for _, kind := range slices.Sorted(maps.Keys(small.costs)) {
				a, b := small.costs[kind], large.costs[kind]
				t.Logf("%s: %d and %d commands, %v and %v", kind, a.commands, b.commands, a.median(), b.median())
				if kind != "consume" && b.commands > a.commands+a.commands/5 { // whose calls are as large as time allows
					t.Errorf("%s makes %d commands in a large queue, %d in a small one", kind, b.commands, a.commands)
				}
			}
		})
	}
}

// slowest is how long the server may take for a call.
const slowest = 5 * time.Millisecond

// TestMillionMessages in 100,000 flows, or in as many streams as there may be: no kind of call
// takes the server more than 5 ms.
func TestMillionMessages(t *testing.T) {
	if os.Getenv("MILLRACE_SOAK") == "" {
		t.Skip("a million messages take some minutes; MILLRACE_SOAK=1 writes them")
	}
	for name, cfg := range crowds {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, cfg, 1_000_000, 100_000)
			for _, n := range []int{1, 100, maxRead} {
				for range 5 {
					c.round(n)
				}
				c.judge(n)
			}
			c.measure("delete", func() {
				if _, err := c.q.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			c.judge(1)
		})
	}
}

// TestSkippedFlows: a read that finds a thousand flows of which all messages were cancelled
// takes the server 5 ms at most, too.
func TestSkippedFlows(t *testing.T) {
	if os.Getenv("MILLRACE_SOAK") == "" {
		t.Skip("a machine that is busy has other times; MILLRACE_SOAK=1 measures them")
	}
	c := newCrowd(t, Config{}, 20, 1_000_000)
	c.read(20, time.Hour)
	for range 5 {
		c.cancel(c.write(maxRead, Draft{}), Waiting)
		c.measure("read behind what was cancelled", func() {
			if got := read(t, c.q, 1); len(got) > 0 {
				t.Fatalf("read %q of what was cancelled", bodies(got))
			}
		})
	}
	c.judge(1)
}

// judge logs the cost of calls of n messages, and fails the test if it is too high.
func (c *crowd) judge(n int) {
	c.t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(c.costs)) {
		k := c.costs[kind]
		c.t.Logf("%s, %d: %d calls, median %v, at most %v (%s), %d commands", kind, n, len(k.times), k.median(), k.most, k.worst, k.commands)
		if took := min(k.tail(), k.most); took > slowest {
			c.t.Errorf("%s of %d messages takes the server %v in %s, more than %v", kind, n, took, k.worst, slowest)
		}
	}
	c.costs = map[string]*cost{}
}

// crowds are the shapes of a queue.
var crowds = map[string]Config{
	"tenants": {},
	"streams": {Streams: maxStreams, MaxAttempts: 100},
}
