package fairqueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// machine plays random histories on a queue and the model side by side.
type machine struct {
	t     *testing.T
	q     *Queue
	watch *Queue // the same queue, without a network that loses replies
	model *model
	lose  func(*rapid.T) func() bool // may arm the loss of the next reply
	ids   []string                   // of all messages
	held  []string                   // receipts that a reader has not forgotten
}

func (c *machine) check(r *rapid.T, what string, got, want any, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("%s (-model +queue):\n%s", what, diff)
	}
}

// server runs a command past the library.
func (c *machine) server(r *rapid.T, args ...string) rueidis.RedisResult {
	client := c.watch.run.Client
	result := client.Do(c.t.Context(), client.B().Arbitrary(args...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		r.Fatalf("%v: %v", args, err)
	}
	return result
}

func (c *machine) key(part string) string { return baseKey(c.q.name) + part }

var (
	someTenant   = rapid.SampledFrom([]string{"a", "b\x01", "c\x02"})
	someDedupe   = rapid.SampledFrom([]string{"", "", "", "", "x", "y"})
	somePriority = rapid.SampledFrom([]int{0, 0, 0, -4, 1, 4})
	someCost     = rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2, 30, maxCost})
)

// someMessage draws the id of a message in one of the states, or skips.
func (c *machine) someMessage(r *rapid.T, states ...state) *known {
	var list []*known
	for _, id := range c.ids {
		if k := c.model.messages[id]; len(states) == 0 || slices.Contains(states, k.state) {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		r.Skip("there is none")
	}
	return rapid.SampledFrom(list).Draw(r, "message")
}

// someReceipt draws a receipt, most often a good one, and the message it is good
// for, or nil.
func (c *machine) someReceipt(r *rapid.T) (string, *known) {
	list := slices.Clone(c.held)
	for receipt := range c.model.stale {
		list = append(list, receipt)
	}
	if len(list) == 0 {
		r.Skip("there is none")
	}
	slices.Sort(list)
	receipt := rapid.SampledFrom(list).Draw(r, "receipt")
	for _, k := range c.model.messages {
		if k.receipt == receipt {
			return receipt, k
		}
	}
	return receipt, nil
}

func (c *machine) write(r *rapid.T) {
	drafts := make([]Draft, rapid.IntRange(1, 5).Draw(r, "messages"))
	expires, plain := false, true
	for i := range drafts {
		d := &drafts[i]
		d.Tenant, d.DedupeID, d.Priority = someTenant.Draw(r, "tenant"), someDedupe.Draw(r, "dedupe id"), somePriority.Draw(r, "priority")
		d.Cost = someCost.Draw(r, "cost")
		d.Delay = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Hour}).Draw(r, "delay")
		d.TTL = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, 0, 2 * time.Hour, time.Millisecond}).Draw(r, "deadline")
		expires = expires || d.TTL == time.Millisecond
		d.Body = make([]byte, rapid.SampledFrom([]int{0, 0, 0, largeMessage}).Draw(r, "bytes"))
		d.Batch = c.someBatchID(r)
		plain = plain && d.Delay == 0 && d.DedupeID == "" // a delayed message counts in a batch as if it waited
	}
	c.lose(r)
	written, err := c.q.WriteBatch(c.t.Context(), drafts...)
	refused := false
	if err != nil && !errors.Is(err, ErrBatch) || len(written) != len(drafts) {
		r.Fatalf("write: %+v, %v", written, err)
	}
	for i, d := range drafts {
		name := dedupeName(d)
		if first, ok := c.model.deduped[name]; ok {
			c.check(r, "duplicate", written[i], Written{ID: first, Duplicate: true}, nil)
			continue
		}
		batch, mayHave := c.model.mayHave(d.Batch)
		if !mayHave {
			c.check(r, "refused", written[i], Written{}, nil)
			refused = true
			continue
		}
		id := written[i].ID
		c.check(r, "written", written[i], Written{ID: id}, nil)
		if c.model.messages[id] != nil {
			r.Fatalf("two messages have the id %s", id)
		}
		k := &known{
			id: id, tenant: d.Tenant, priority: d.Priority, cost: d.Cost, dedupe: name, mortal: d.TTL > 0, worthNot: d.TTL == time.Millisecond,
			state: waiting, flow: c.flowOf(r, id), batch: batch,
		}
		if batch != nil {
			batch.Written++
		}
		if plain {
			if err := c.model.mayLieIn(d.Tenant, k.flow); err != nil {
				r.Fatal(err)
			}
		}
		if d.Delay > 0 {
			k.state = aside
		}
		c.model.messages[id] = k
		c.ids = append(c.ids, id)
		c.model.count.Written++
		if name != "" {
			c.model.deduped[name] = id
		}
	}
	c.check(r, "whether a draft was refused", errors.Is(err, ErrBatch), refused, nil)
	if expires {
		passes(c.t, c.watch.run.Client, 2*time.Millisecond)
		c.tend(r)
		for _, k := range c.model.messages {
			if k.state == waiting && k.worthNot && k.moves == 0 {
				r.Fatalf("message %s waits behind its deadline", k.id)
			}
		}
	}
}

// tend has the queue do due work.
func (c *machine) tend(r *rapid.T) {
	if _, err := c.watch.call(c.t.Context(), "tend", ""); err != nil {
		r.Fatal(err)
	}
	c.expire(r)
}

// expire has the model learn which messages have expired.
func (c *machine) expire(r *rapid.T) {
	c.model.expire(func(id string) bool {
		there, err := c.server(r, "HEXISTS", c.key(":hot"), id).AsBool()
		return err == nil && !there
	})
}

// flowOf is the flow of a message that was just written.
func (c *machine) flowOf(r *rapid.T, id string) string {
	there, _ := readRaw(c.t, c.watch)
	for text := range there.delayed {
		if m, bad := readMember(text); bad == nil && m.id == id {
			return m.flow
		}
	}
	for flow, entries := range there.flows {
		if slices.ContainsFunc(entries, func(e entry) bool { return e.id() == id }) {
			return flow
		}
	}
	r.Fatalf("message %s is not there", id)
	return ""
}

func (c *machine) read(r *rapid.T) {
	most := rapid.SampledFrom([]int{1, 1, 2, 3, 10}).Draw(r, "max")
	c.lose(r)
	messages, err := c.q.Read(c.t.Context(), ReadConfig{Max: most, Visibility: time.Hour})
	if c.model.paused {
		c.expire(r)
		if !errors.Is(err, ErrPaused) {
			r.Fatalf("read of a paused queue = %d messages, %v", len(messages), err)
		}
		return
	}
	fewer := c.model.expired()
	c.expire(r)
	if fewer { // a batch whose last messages were removed is done, and a read looks again
		for _, m := range messages {
			if c.model.messages[m.ID] == nil {
				c.ended(r, m)
			}
		}
	}
	// A read ends early where it comes upon one that has expired, but not with nothing.
	if most := min(most, c.model.live()); !fewer || len(messages) > most || most > 0 && len(messages) == 0 {
		c.check(r, "number of messages", len(messages), most, nil)
	}
	if (len(messages) == 0) != errors.Is(err, ErrEmpty) {
		r.Fatalf("read = %d messages, %v", len(messages), err)
	}
	for _, m := range messages {
		k := c.model.messages[m.ID]
		if k == nil || k.state != waiting || k.over() {
			r.Fatalf("message %s was delivered, and it is %+v", m.ID, k)
		}
		head := c.model.head(k.flow)
		_, stream := readFlow(k.flow)
		c.check(r, "delivered", []any{m.ID, m.Tenant, m.Priority, m.Cost, m.Attempt, m.Stream, !m.Deadline.IsZero()},
			[]any{head.id, head.tenant, head.priority, head.cost, head.made + 1, stream, head.mortal}, nil)
		if _, wasStale := c.model.stale[m.Receipt]; wasStale || slices.Contains(c.held, m.Receipt) {
			r.Fatalf("receipt %s was given out twice", m.Receipt)
		}
		k.moves++
		k.made++
		k.state, k.receipt = flying, m.Receipt
		c.model.count.Delivered++
		c.model.count.Cost += int64(k.cost)
		c.held = append(c.held, m.Receipt)
	}
}

// forget is a reader that crashes: its receipts are lost.
func (c *machine) forget(r *rapid.T) {
	if len(c.held) == 0 {
		r.Skip("holds nothing")
	}
	i := rapid.IntRange(0, len(c.held)-1).Draw(r, "receipt")
	c.held = slices.Delete(c.held, i, i+1)
}

func (c *machine) ack(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	other, k2 := c.someReceipt(r)
	c.lose(r)
	n, err := c.q.Ack(c.t.Context(), receipt, other)
	c.expire(r) // which any call of readers notices, at most every 100 ms
	want := 0
	for _, one := range []*known{k, k2} {
		switch {
		case one == nil:
		case one.state == flying:
			c.model.leave(one)
			one.leaveBatch(func(b *Batch) { b.Handled++ })
			c.model.count.Acked++
			want++
		case one.state == ghost:
			c.model.leave(one)
		}
	}
	if (want < 2) != errors.Is(err, millrace.ErrStale) {
		r.Fatalf("ack: error = %v, good receipts in the model: %d of 2", err, want)
	}
	c.check(r, "acknowledged", n, want, nil)
}

func (c *machine) nack(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	cfg := NackConfig{
		Delay: rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(r, "delay"),
		Dead:  rapid.IntRange(0, 5).Draw(r, "dead") == 0,

		Reason: rapid.SampledFrom([]string{"", "timeout", "no order 17\x01\xff"}).Draw(r, "reason"),
	}
	c.nextMillisecond(r)
	c.lose(r)
	_, err := c.q.Nack(c.t.Context(), cfg, receipt)
	good := k != nil && k.state == flying
	if good != !errors.Is(err, millrace.ErrStale) || good && err != nil {
		r.Fatalf("nack: error = %v, good in the model: %v", err, good)
	}
	switch {
	case good && cfg.Dead:
		c.model.count.Nacked++
		c.model.moveToDead(k)
		c.model.fails(k, stored(cfg.Reason))
	case good:
		c.model.count.Nacked++
		c.model.giveBack(k, cfg.Delay > 0)
		c.model.fails(k, stored(cfg.Reason))
	case k != nil:
		c.model.leave(k)
	}
}

// stored is a reason as the queue keeps it.
func stored(reason string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(reason, ""), "\x01", " ")
}

// handBack returns a message whose reader has gone.
func (c *machine) handBack(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	c.lose(r)
	c.q.handBack(c.t.Context(), []Message{{Receipt: receipt}})
	if k == nil {
		return
	}
	was := k.state
	c.model.leave(k)
	if was == flying {
		k.made--
		k.state = waiting
		c.model.count.Returned++
		if k.withdrawn() {
			c.model.remove(k)
			c.model.count.Cancelled++
		}
	}
}

func (c *machine) extend(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	c.lose(r)
	good, err := c.q.Extend(c.t.Context(), time.Hour, receipt)
	c.check(r, "extended", good, []bool{k != nil && k.state == flying}, err)
}

func (c *machine) cancel(r *rapid.T) {
	k := c.someMessage(r)
	places := map[state]State{gone: Gone, ghost: Gone, isDead: Gone, aside: Delayed, waiting: Waiting, flying: InFlight}
	want := []State{places[k.state], Gone}
	if want[0] != Gone {
		receipt, was := k.receipt, k.state
		c.model.remove(k)
		c.model.count.Cancelled++
		if was == flying {
			delete(c.model.stale, receipt)
			k.state, k.receipt = ghost, receipt
		}
	}
	c.lose(r)
	got, err := c.q.Cancel(c.t.Context(), k.id, k.id)
	c.check(r, "cancelled", got, want, err)
}

// over lets the visibility or the delay of a message be over.
func (c *machine) over(r *rapid.T) { c.bringAbout(r, c.someMessage(r, aside, flying, ghost)) }

// nextMillisecond waits for it on the server. Of messages that died in one millisecond, that
// with the lowest id is dropped first, and not the one that died first.
func (c *machine) nextMillisecond(r *rapid.T) {
	now := func() int64 {
		parts, err := c.server(r, "TIME").AsIntSlice()
		if err != nil {
			r.Fatal(err)
		}
		return parts[0]*1000 + parts[1]/1000
	}
	for start := now(); now() == start; {
		continue // the clock goes on
	}
}

func (c *machine) bringAbout(r *rapid.T, k *known) {
	c.nextMillisecond(r)
	is, set, member := k.state, ":flight", ""
	there, _ := readRaw(c.t, c.watch)
	if is == aside {
		set = ":delayed"
		for text := range there.delayed {
			if m, bad := readMember(text); bad == nil && m.id == k.id {
				member = text
			}
		}
	} else if raw, err := readReceipts([]string{k.receipt}); err == nil {
		if value := there.hot[raw[0].handle()]; value != "" { // as if a second had passed
			member = raw[0].handle()
			c.server(r, "HSET", c.key(":hot"), member, value[:30]+"f"+value[31:])
		}
	}
	if member == "" {
		r.Fatalf("message %s is not %s", k.id, is)
	}
	c.server(r, "ZADD", c.key(set), "1", member)
	switch is { //nolint:exhaustive // the others have no time
	case aside:
		c.model.leave(k)
		k.state = waiting
	case ghost: // was cancelled, so it does not come again
		c.model.leave(k)
	default:
		c.model.count.Reclaimed++
		c.model.giveBack(k, false)
		c.model.fails(k, "its reader did not finish in time")
	}
	c.tend(r)
}

// dedupeName is the name under which the model knows a draft's dedupe id.
func dedupeName(d Draft) string {
	if d.DedupeID == "" {
		return ""
	}
	return escape.Replace(fmt.Sprintf("%d:%s:%s", len(d.Tenant), d.Tenant, d.DedupeID))
}

// window lets the window of a dedupe id be over.
func (c *machine) window(r *rapid.T) {
	name := dedupeName(Draft{
		Tenant: someTenant.Draw(r, "tenant"), DedupeID: rapid.SampledFrom([]string{"x", "y"}).Draw(r, "dedupe id"),
	})
	c.server(r, "ZADD", c.key(":dedupes"), "XX", "1", name)
	delete(c.model.deduped, name)
}

// invariant: the queue's contents, as it reports them, equal the model's.
func (c *machine) invariant(r *rapid.T) {
	ctx := c.t.Context()
	s, err := c.watch.Stats(ctx)
	if err != nil {
		r.Fatalf("stats: %v", err)
	}
	there, _ := readRaw(c.t, c.watch)
	c.batchesAre(r, there)
	c.check(r, "what is wrong with the keys", there.wrongs(), "", nil)
	count := map[state]int{}
	flows := map[string]int{}
	for _, k := range c.model.messages {
		at := k.state
		if at == ghost {
			at = flying
		}
		count[at]++
		if at == waiting {
			flows[k.flow]++
		}
	}
	delete(count, gone)
	got := map[state]int{waiting: s.Waiting, flying: s.InFlight, aside: s.Delayed, isDead: s.Dead}
	maps.DeleteFunc(got, func(_ state, n int) bool { return n == 0 })
	if !maps.Equal(got, count) {
		r.Logf("the keys: %+v", there)
	}
	c.check(r, "sizes", got, count, nil)
	inFlows := map[string]int{}
	for _, f := range s.Flows {
		switch {
		case f.Waiting == 0:
		case f.Stream < 0:
			inFlows[tenantFlow(f.Tenant)] = f.Waiting
		default:
			inFlows[streamFlow(f.Stream)] = f.Waiting
		}
	}
	c.check(r, "flows", inFlows, flows, nil)
	c.check(r, "shape", streams{s.Streams, s.PerTenant}.setting(), c.model.shape.setting(), nil)
	c.check(r, "paused", s.Paused, c.model.paused, nil)
	c.check(r, "counters", s.Counters, c.model.count, nil)
	failing := map[string]queuestats.Failures{}
	for _, f := range s.Failing {
		f.Oldest, f.Newest = time.Time{}, time.Time{}
		failing[f.Tenant] = f
	}
	c.check(r, "tenants that fail", failing, c.model.failing, nil)
	n, err := c.watch.Len(ctx)
	c.check(r, "Len", n, count[waiting], err)
	var dead, wantDead []string
	for m, err := range c.watch.Dead().All(ctx) {
		if err != nil {
			r.Fatalf("dead: %v", err)
		}
		dead = append(dead, fmt.Sprint(m.ID, " attempt ", m.Attempt, " cost ", m.Cost))
	}
	for _, k := range c.model.dead {
		wantDead = append(wantDead, fmt.Sprint(k.id, " attempt ", k.made, " cost ", k.cost))
	}
	slices.Sort(dead) // two that died in one millisecond lie in the order of their ids
	slices.Sort(wantDead)
	c.check(r, "the dead", dead, wantDead, nil)
}

// finish works everything off: each message that is neither acknowledged nor
// cancelled, expired or purged comes out, and nothing of it is left in Redis.
func (c *machine) finish(r *rapid.T) {
	if c.model.paused {
		c.pause(r)
	}
	for _, id := range c.ids {
		if k := c.model.messages[id]; k.state == flying || k.state == aside || k.state == ghost {
			c.bringAbout(r, k)
		}
	}
	for _, b := range c.model.batches { // else they are open for 30 days
		c.changeBatch(r, b, BatchCancelled)
	}
	c.tend(r)
	c.invariant(r)
	for _, k := range c.model.dead {
		n, err := c.watch.Dead().Purge(c.t.Context(), k.id)
		c.check(r, "purged in the end", n, 1, err)
		c.model.remove(k)
	}
	left := map[string]bool{}
	for id, k := range c.model.messages {
		if k.state == waiting && !k.over() {
			left[id] = true
		}
	}
	seen := map[string]bool{}
	for {
		messages, err := c.watch.Read(c.t.Context(), ReadConfig{Max: 100})
		if errors.Is(err, ErrEmpty) {
			break
		} else if err != nil {
			r.Fatalf("read: %v", err)
		}
		for _, m := range messages {
			if seen[m.ID] {
				r.Fatalf("%s came out twice", m.ID)
			}
			if id := m.Headers[HeaderBatch]; id != "" && !left[m.ID] {
				c.ends(r, id, m)
			} else {
				seen[m.ID] = true
			}
			if _, err := c.watch.Ack(c.t.Context(), m.Receipt); err != nil {
				r.Fatalf("ack: %v", err)
			}
		}
	}
	c.check(r, "what came out in the end", seen, left, nil)
	for _, name := range slices.Sorted(maps.Keys(c.model.deduped)) {
		c.server(r, "ZADD", c.key(":dedupes"), "XX", "1", name)
	}
	for _, tenant := range []string{"a", "b\x01", "c\x02"} {
		for _, id := range []string{"x", "y"} {
			c.server(r, "ZADD", c.key(":dedupes"), "XX", "1", dedupeName(Draft{Tenant: tenant, DedupeID: id}))
		}
	}
	for _, b := range c.model.batches {
		c.check(r, "the end of "+b.ID, b.ends, 1, nil)
		c.server(r, "ZADD", c.key(":deadlines"), "XX", "1", batchPrefix+b.ID)
	}
	c.tend(r)
	wantNothingLeft(c.t, c.watch)
	if _, err := c.watch.Delete(c.t.Context()); err != nil {
		r.Fatal(err)
	}
}

// TestModel plays random histories on a server, through a proxy that executes and
// then loses replies, and on miniredis.
func TestModel(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	straight := server.Client(t)
	scripttest.Load(t, straight, library)
	mini := miniClient(t)
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
	}{
		{"server", straight, straight, never},
		{"lossy", proxy.Client(t), straight, sometimes},
		{"miniredis", mini, mini, never},
	} {
		t.Run(network.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				if skips(r, network.client != mini) {
					return
				}
				name := redistest.Name(t)
				shape := streams{count: rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(r, "streams")}
				if shape.count > 0 {
					shape.perTenant = rapid.IntRange(1, min(3, shape.count)).Draw(r, "per tenant")
				}
				cfg := Config{
					Streams: shape.count, PerTenant: shape.perTenant,
					MaxAttempts: rapid.IntRange(1, 3).Draw(r, "attempts"), DedupeWindow: time.Hour,
				}
				c := &machine{
					t: t, q: openOn(t, network.client, name, cfg), watch: openOn(t, network.watches, name, cfg),
					model: newModel(shape, cfg.MaxAttempts), lose: network.lose,
				}
				c.write(r)
				r.Repeat(map[string]func(*rapid.T){
					"write": c.write, "read": c.read, "read again": c.read, "forget": c.forget, "ack": c.ack, "nack": c.nack,
					"hand back": c.handBack, "extend": c.extend, "cancel": c.cancel, "redrive": c.redrive, "retry": c.retry, "retry some": c.retrySome, "purge": c.purgeDead,
					"resize": c.resize, "pause": c.pause, "browse": c.browse, "over": c.over, "over too": c.over, "window": c.window,
					"keep dead": c.keepDead, "new batch": c.newBatch, "end batch": c.endBatch,
					"": c.invariant,
				})
				c.finish(r)
			})
		})
	}
}

// skips reports whether a history is not played: two in three on miniredis, which takes ten times as long as a server, unless
// `make more` runs.
func skips(r *rapid.T, server bool) bool {
	return !server && !redistest.More() && rapid.IntRange(0, 2).Draw(r, "skip") > 0
}

// TestMiniredis is the life of messages on the embedded stand-in for a server.
func TestMiniredis(t *testing.T) {
	t.Parallel()
	q := openOn(t, miniClient(t), "x", Config{})
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	write(t, q, "a:1")
	m := <-got
	good, err := q.Extend(t.Context(), minVisibility, m.Receipt)
	want(t, "extend", good, []bool{true}, err)
	again := eventually(t, q)
	if again.ID != m.ID || again.Attempt != 2 {
		t.Errorf("read = %+v, want %s at attempt 2", again, m.ID)
	}
	nack(t, q, NackConfig{Delay: time.Millisecond}, again)
	ack(t, q, eventually(t, q))
	wantSizes(t, q, 0, 0, 0, 0)
}

// miniClient returns a client of an embedded miniredis.
func miniClient(t *testing.T) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{miniredis.RunT(t).Addr()}, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
