package fairqueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// clocked returns scripts whose clock is a key of the queue, so that a test sets the time.
func clocked(t *testing.T, scripts *script.Library) *script.Library {
	t.Helper()
	return scripttest.Without(t, scripts, "local clock = redis.call('TIME')",
		"local clock = redis.call('GET', prefix .. 'clock') clock = {string.sub(clock, 1, -7), string.sub(clock, -6)}")
}

// limitsStart is the first instant of a history with clocked scripts, since 1970.
const limitsStart = 1_800_000_000 * time.Second

// limitsVisibility is how long a reader of such a history has a message.
const limitsVisibility = time.Hour

// limitsMachine plays random histories on a queue with limits and the model side by side. One
// call is made after the other, so the model knows exactly how many messages each read must get.
type limitsMachine struct {
	t     *testing.T
	q     *Queue
	watch *Queue // the same queue, without a network that loses replies
	model *limitsModel
	lose  func(*rapid.T) func() bool

	reader *registration // for handlers
}

// limitedTenants are the tenants of these histories.
var limitedTenants = []string{"a", "b\x01", "c\x02c", "d", "e\x02"}

// limitedNames are all that may have limits: the default, and tenants.
var limitedNames = append([]string{""}, limitedTenants...)

var (
	someLimitedTenant = rapid.SampledFrom(limitedTenants)
	someLimited       = rapid.SampledFrom(limitedNames)
	someStep          = rapid.SampledFrom([]time.Duration{time.Millisecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute})
)

// fatal fails the history unless err is nil.
func (c *limitsMachine) must(r *rapid.T, what string, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

func (c *limitsMachine) check(r *rapid.T, what string, got, want any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("%s (-model +queue):\n%s", what, diff)
	}
}

// setClock tells the server the time of the model.
func (c *limitsMachine) setClock(r *rapid.T) {
	micros := strconv.FormatInt(c.model.now.Microseconds(), 10)
	c.must(r, "clock", do(c.t, c.watch.run.Client, "SET", baseKey(c.q.name)+":clock", micros).Error())
}

// pass lets time pass, and mostly has the queue do due work.
func (c *limitsMachine) pass(r *rapid.T) {
	d := someStep.Draw(r, "time")
	due := false
	for _, k := range c.model.messages {
		due = due || k.state != waiting && k.until <= c.model.now+d
	}
	c.model.pass(d)
	c.setClock(r)
	if due || rapid.Bool().Draw(r, "upkeep") {
		c.tend(r)
	}
}

// tend has the queue do all that is due.
func (c *limitsMachine) tend(r *rapid.T) {
	for {
		n, err := c.watch.tend(c.t.Context(), "")
		c.must(r, "tend", err)
		if n == 0 {
			return
		}
	}
}

// some draws a message in one of the states, or skips.
func (c *limitsMachine) some(r *rapid.T, states ...state) *limited {
	var list []*limited
	for _, id := range slices.Sorted(maps.Keys(c.model.messages)) {
		if k := c.model.messages[id]; slices.Contains(states, k.state) {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		r.Skip("there is none")
	}
	return rapid.SampledFrom(list).Draw(r, "message")
}

func (c *limitsMachine) write(r *rapid.T) {
	drafts := make([]Draft, rapid.IntRange(1, 6).Draw(r, "messages"))
	for i := range drafts {
		drafts[i].Tenant = someLimitedTenant.Draw(r, "tenant")
		drafts[i].Delay = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 2 * time.Second}).Draw(r, "delay")
	}
	c.lose(r)
	written, err := c.q.WriteBatch(c.t.Context(), drafts...)
	if err != nil && !errors.Is(err, ErrTenantFull) || len(written) != len(drafts) {
		r.Fatalf("write: %+v, %v", written, err)
	}
	full := false
	for i, d := range drafts {
		refused := d.Delay == 0 && c.model.refuses(d.Tenant)
		full = full || refused
		c.check(r, fmt.Sprintf("draft %d of %q is refused", i, d.Tenant), written[i].ID == "", refused)
		if refused {
			continue
		}
		k := &limited{id: written[i].ID, tenant: d.Tenant, state: waiting}
		if d.Delay > 0 {
			k.state, k.until = aside, c.model.now+d.Delay
		}
		c.model.messages[k.id] = k
	}
	c.check(r, "the error says that a tenant is full", errors.Is(err, ErrTenantFull), full)
}

// read takes messages as a reader does, or as handlers of Consume do.
func (c *limitsMachine) read(r *rapid.T) {
	most, handlers := rapid.SampledFrom([]int{1, 1, 2, 3, 50}).Draw(r, "max"), rapid.Bool().Draw(r, "for handlers")
	c.lose(r)
	c.take(r, c.q, most, handlers)
}

func (c *limitsMachine) take(r *rapid.T, q *Queue, most int, handlers bool) []*limited {
	want := min(most, c.model.deliverable(handlers))
	request := workRequest{q: q, max: most, visibility: limitsVisibility}
	if handlers {
		request.reader = c.reader
	}
	var got []Message
	for tries := 0; ; tries++ {
		if tries > 300 {
			there, _ := readRaw(c.t, c.watch)
			r.Fatalf("a read is told again and again to try again: %+v", there)
		}
		answers, err := q.shared.work(c.t.Context(), []workRequest{request}, false)
		c.must(r, "read", err)
		got = append(got, answers[0].messages...)
		if request.max = most - len(got); request.max == 0 || !answers[0].again {
			break
		}
	}
	var taken []*limited
	there, _ := readRaw(c.t, c.watch)
	for _, m := range got {
		k := c.model.messages[m.ID]
		if k == nil || k.state != waiting {
			r.Fatalf("message %s was delivered, and it is %+v", m.ID, k)
		}
		head := c.model.head(m.Tenant)
		c.check(r, "delivered", []string{m.ID, m.Tenant}, []string{head.id, k.tenant})
		k.how = string(there.deliveries[m.receipt().handle()].kind)
		if c.model.deliver(k, m.Receipt, handlers, limitsVisibility) {
			l := c.model.effective(m.Tenant)
			r.Fatalf("a message of %q was delivered beyond its limits: %+v", m.Tenant, l)
		}
		taken = append(taken, k)
	}
	if len(got) < want {
		r.Fatalf("a read of up to %d messages got %d, and %d may be delivered at %d: %+v", most, len(got), want, c.model.now.Milliseconds(), there)
	}
	return taken
}

func (c *limitsMachine) ack(r *rapid.T) {
	k := c.some(r, flying, ghost)
	c.lose(r)
	_, err := c.q.Ack(c.t.Context(), k.receipt)
	if k.state == flying {
		c.must(r, "ack", err)
	}
	delete(c.model.messages, k.id)
}

// settle gives a message back: failed, handed back without an attempt, or throttled.
func (c *limitsMachine) settle(r *rapid.T) {
	k := c.some(r, flying, ghost)
	verb := rapid.SampledFrom([]string{"n", "u", throttleVerb}).Draw(r, "verb")
	d := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(r, "delay")
	if verb == throttleVerb {
		d = rapid.SampledFrom([]time.Duration{time.Millisecond, 3 * time.Second}).Draw(r, "throttle")
	}
	c.lose(r)
	receipts, err := readReceipts([]string{k.receipt})
	c.must(r, "receipt", err)
	_, err = c.q.shared.work(c.t.Context(), []workRequest{{q: c.q, settle: []settlement{{receipts[0], verb, settleArg(d, "")}}}}, false)
	c.must(r, "settle", err)
	if k.state == ghost {
		delete(c.model.messages, k.id)
		return
	}
	k.state, k.receipt = waiting, ""
	switch {
	case verb == throttleVerb:
		c.model.sleep(k.tenant, c.model.now+d)
	case d > 0:
		k.state, k.until = aside, c.model.now+d
	}
}

func (c *limitsMachine) cancel(r *rapid.T) {
	k := c.some(r, waiting, aside, flying)
	c.lose(r)
	_, err := c.q.Cancel(c.t.Context(), k.id)
	c.must(r, "cancel", err)
	if k.state == flying {
		k.state = ghost
	} else {
		delete(c.model.messages, k.id)
	}
}

// change sets some limits of a tenant, has the default decide others, and leaves the rest. Sometimes it sets only those that
// are not set.
func (c *limitsMachine) change(r *rapid.T) {
	of := someLimited.Draw(r, "tenant")
	var l OwnLimits
	var unset []string
	for range rapid.IntRange(1, 3).Draw(r, "fields") {
		switch rapid.IntRange(0, 5).Draw(r, "field") {
		case 0:
			l.MaxInFlight = new(rapid.IntRange(0, 4).Draw(r, "most in flight"))
		case 1:
			l.MaxShare = new(rapid.SampledFrom([]float64{0, 0.01, 0.5}).Draw(r, "share"))
		case 2:
			l.Rate = new(rapid.SampledFrom([]float64{0, 0.1, 1, 20}).Draw(r, "rate"))
		case 3:
			l.Burst = new(rapid.SampledFrom([]int{0, 1, 3}).Draw(r, "burst"))
		case 4:
			l.MaxWaiting = new(rapid.IntRange(0, 4).Draw(r, "most waiting"))
		case 5:
			l.Weight = new(rapid.SampledFrom([]float64{1, 0.5, 4}).Draw(r, "weight"))
		}
	}
	if l.Rate != nil && *l.Rate == 0 {
		l.Burst = nil
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(limitNames[:6]), 0, 2, rapid.ID).Draw(r, "unset") {
		if !slices.Contains(NamesOf(l), name) {
			unset = append(unset, name)
		}
	}
	c.lose(r)
	if rapid.IntRange(0, 3).Draw(r, "if unset") == 0 {
		c.must(r, "set if unset", c.q.Limits().SetIfUnset(c.t.Context(), of, l))
		c.model.change(of, func(now *OwnLimits) {
			before := *now
			now.merge(l, nil)
			now.merge(before, nil)
		})
		return
	}
	c.must(r, "change limits", c.q.Limits().Set(c.t.Context(), of, l))
	if len(unset) > 0 {
		c.must(r, "forget limits", c.q.Limits().Clear(c.t.Context(), of, unset...))
	}
	c.model.change(of, func(now *OwnLimits) { now.merge(l, unset) })
}

// merge sets those of the limits that are not nil, and has no value for others by their names.
func (o *OwnLimits) merge(l OwnLimits, unset []string) {
	merge("weight", &o.Weight, l.Weight, unset)
	merge("max_in_flight", &o.MaxInFlight, l.MaxInFlight, unset)
	merge("max_share", &o.MaxShare, l.MaxShare, unset)
	merge("rate", &o.Rate, l.Rate, unset)
	merge("burst", &o.Burst, l.Burst, unset)
	merge("max_waiting", &o.MaxWaiting, l.MaxWaiting, unset)
	merge("paused", &o.Paused, l.Paused, unset)
}

func merge[T any](name string, to **T, from *T, unset []string) {
	if from != nil {
		*to = from
	} else if slices.Contains(unset, name) {
		*to = nil
	}
}

func (c *limitsMachine) clear(r *rapid.T) {
	of := someLimited.Draw(r, "tenant")
	c.lose(r)
	c.must(r, "clear limits", c.q.Limits().Clear(c.t.Context(), of))
	c.model.clear(of)
}

func (c *limitsMachine) pause(r *rapid.T) {
	of := someLimitedTenant.Draw(r, "tenant")
	d := rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second}).Draw(r, "pause")
	c.lose(r)
	c.must(r, "pause", c.q.Limits().Pause(c.t.Context(), of, d))
	c.model.pause(of, d)
}

func (c *limitsMachine) resume(r *rapid.T) {
	of := someLimitedTenant.Draw(r, "tenant")
	c.lose(r)
	c.must(r, "resume", c.q.Limits().Resume(c.t.Context(), of))
	c.model.resume(of)
}

// purge removes the messages of a tenant that wait or are delayed.
func (c *limitsMachine) purge(r *rapid.T) {
	of := someLimitedTenant.Draw(r, "tenant")
	c.lose(r)
	n, err := c.q.PurgeTenant(c.t.Context(), of)
	c.must(r, "purge", err)
	want := 0
	for id, k := range c.model.messages {
		if k.tenant == of && (k.state == waiting || k.state == aside) {
			delete(c.model.messages, id)
			want++
		}
	}
	c.check(r, "purged", n, want)
}

// invariant: the queue's contents, as it reports them, equal the model's.
func (c *limitsMachine) invariant(r *rapid.T) {
	s, err := c.watch.Stats(c.t.Context())
	c.must(r, "stats", err)
	count := map[state]int{}
	wait := map[string]int{}
	for _, k := range c.model.messages {
		at := k.state
		if at == ghost {
			at = flying
		}
		count[at]++
		if at == waiting {
			wait[k.tenant]++
		}
	}
	c.check(r, "waiting, in flight, delayed", [3]int{s.Waiting, s.InFlight, s.Delayed}, [3]int{count[waiting], count[flying], count[aside]})
	got := map[string]int{}
	for _, f := range s.Flows {
		of := f.Tenant
		if f.Waiting > 0 {
			got[of] = f.Waiting
		}
		l := c.model.effective(of)
		c.check(r, fmt.Sprintf("limits of %q", of), f.Limits, l)
	}
	c.check(r, "waiting by tenant", got, wait)
	c.check(r, "numbers", c.numbers(r), c.flights())
}

// numbers are how many deliveries the queue has counted for each tenant that has some.
func (c *limitsMachine) numbers(r *rapid.T) map[string]int {
	there, _ := readRaw(c.t, c.watch)
	c.check(r, "what is wrong with the keys", there.wrongs(), "")
	got := map[string]int{}
	for owner, o := range there.owners {
		if n := int(o.n + o.others); n > 0 {
			got[owner] = n
		}
	}
	return got
}

// restAll ends all limits and pauses, works off the remaining messages, and expects the queue to have
// forgotten everything: nothing leaks.
func (c *limitsMachine) restAll(r *rapid.T) {
	for _, of := range limitedNames {
		c.must(r, "clear", c.watch.Limits().Clear(c.t.Context(), of))
		c.model.clear(of)
		if of != "" {
			c.must(r, "resume", c.watch.Limits().Resume(c.t.Context(), of))
			c.model.resume(of)
		}
	}
	c.model.pass(2 * limitsVisibility)
	c.setClock(r)
	c.tend(r)
	for {
		taken := c.take(r, c.watch, 50, false)
		if len(taken) == 0 {
			break
		}
		for _, k := range taken {
			_, err := c.watch.Ack(c.t.Context(), k.receipt)
			c.must(r, "ack", err)
			delete(c.model.messages, k.id)
		}
	}
	c.check(r, "messages left", len(c.model.messages), 0)
	c.model.pass(2 * limitsVisibility)
	c.setClock(r)
	for range 4 * len(limitedNames) { // each read forgets two buckets
		c.take(r, c.watch, 1, false)
	}
	c.tend(r)
	wantRest(c.t, c.watch)
	wantNothingLeft(c.t, c.watch)
	_, err := c.watch.Delete(c.t.Context())
	c.must(r, "delete", err)
	c.must(r, "clock", do(c.t, c.watch.run.Client, "DEL", baseKey(c.q.name)+":clock").Error())
}

// TestLimitsModel plays random histories of limits, on a server and through a
// proxy that executes and then loses replies.
func TestLimitsModel(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	straight := server.Client(t)
	scripts := clocked(t, withoutTheSlowRule(t))
	mini := miniClient(t)
	scripttest.Load(t, straight, scripts)
	scripttest.Load(t, mini, scripts)
	proxy := redistest.NewProxy(t, server.Addr())
	never := func(*rapid.T) func() bool { return func() bool { return false } }
	sometimes := func(r *rapid.T) func() bool {
		proxy.Heal()
		if rapid.IntRange(0, 4).Draw(r, "lose the reply") > 0 {
			return func() bool { return false }
		}
		lost := proxy.DropReply(evalsha)
		return func() bool { return lost.Count() > 0 }
	}
	for _, network := range []struct {
		name            string
		client, watches rueidis.Client
		lose            func(*rapid.T) func() bool
	}{{"server", straight, straight, never}, {"lossy", proxy.Client(t), straight, sometimes}, {"miniredis", mini, mini, never}} {
		t.Run(network.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				if !skips(r, network.client != mini) {
					playLimits(t, r, network.client, network.watches, scripts, network.lose)
				}
			})
		})
	}
}

// playLimits plays one history.
func playLimits(t *testing.T, r *rapid.T, client, straight rueidis.Client, scripts *script.Library, lose func(*rapid.T) func() bool) {
	name, cfg := redistest.Name(t), Config{MaxAttempts: 1_000_000}
	c := &limitsMachine{
		t: t, q: openOn(t, client, name, cfg), watch: openOn(t, straight, name, cfg), model: newLimitsModel(limitsStart), lose: lose,
	}
	c.q.run.Scripts, c.watch.run.Scripts = scripts, scripts
	c.setClock(r)
	c.write(r)
	c.model.capacity = rapid.SampledFrom([]float64{1, 1.25, 2.5, 4, 10}).Draw(r, "handlers")
	c.reader = readerOf(reader{id: "reader", handlers: c.model.capacity})
	_, err := c.watch.beat(t.Context(), time.Hour, c.reader, nil)
	c.must(r, "a reader", err)
	r.Repeat(map[string]func(*rapid.T){
		"write": c.write, "write more": c.write, "read": c.read, "read more": c.read, "ack": c.ack, "settle": c.settle,
		"cancel": c.cancel, "change": c.change, "change more": c.change, "clear": c.clear, "pause": c.pause, "resume": c.resume,
		"purge": c.purge, "time": c.pass, "more time": c.pass,
		"": c.invariant,
	})
	c.restAll(r)
}
