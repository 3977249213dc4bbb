package fairqueue

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script/scripttest"
	"github.com/millrace/millrace/shuffleshard"
)

// The model is a queue as its documentation describes it, in the plainest words.
// No time passes in it: a visibility or a delay is an hour, and when it is to be
// over, a history says so, to the model and, past the library, to the server.

// state is where a message is.
type state string

const (
	gone    state = "gone"
	aside   state = "set aside"
	waiting state = "waiting"
	flying  state = "in flight"
	isDead  state = "dead"
)

// known is a message as the model has it.
type known struct {
	id       string
	state    state
	stream   int    // the one it is in, or goes to when it is brought back
	made     int    // deliveries that count
	moves    int    // how often it left a place
	receipt  string // of the delivery it is in
	over     bool   // its delay or its visibility is over, and nobody has noticed
	worthNot bool   // its deadline has come
}

// model is a queue.
type model struct {
	streams, per, cursor int
	paused               bool
	attempts             int

	messages map[string]*known   // by id
	lines    map[int][]*known    // those that wait, by stream
	ends     []int               // streams in which something is over, in the order in which it came to be; -1 for those set aside
	overdue  []*known            // set aside, and their time has come, in that order
	dead     []*known            // in the order of their deaths
	deduped  map[string]string   // dedupe id of a tenant -> message
	stale    map[string]struct{} // receipts that are not good any more
	count    Counters
}

func newModel(streams, per, attempts int) *model {
	return &model{
		streams: streams, per: min(per, streams), attempts: attempts,
		messages: map[string]*known{}, lines: map[int][]*known{}, deduped: map[string]string{}, stale: map[string]struct{}{},
	}
}

// emptiest is the stream of a tenant's in which the fewest wait.
func (m *model) emptiest(tenant string) int {
	shard := shuffleshard.Get(m.streams, m.per, tenant)
	return slices.MinFunc(shard, func(a, b int) int { return len(m.lines[a]) - len(m.lines[b]) })
}

// line puts a message at the end of a stream.
func (m *model) line(k *known, stream int) {
	k.state, k.stream, k.over = waiting, stream, false
	m.lines[stream] = append(m.lines[stream], k)
}

// leave takes a message from where it is.
func (m *model) leave(k *known) {
	k.moves++
	switch k.state {
	case gone:
	case waiting:
		m.lines[k.stream] = without2(m.lines[k.stream], k)
	case isDead:
		m.dead = without2(m.dead, k)
	case aside:
		m.overdue = without2(m.overdue, k)
	case flying:
		m.stale[k.receipt] = struct{}{}
		k.receipt = ""
	}
	k.state, k.over = gone, false
}

func without2(list []*known, k *known) []*known {
	return slices.DeleteFunc(slices.Clone(list), func(one *known) bool { return one == k })
}

func (m *model) bury(k *known) {
	m.leave(k)
	k.state = isDead
	m.dead = append(m.dead, k)
	m.count.Buried++
}

// end notes that something in a stream is over.
func (m *model) end(stream int) {
	if !slices.Contains(m.ends, stream) {
		m.ends = append(m.ends, stream)
	}
}

// due does what a read does first.
func (m *model) due(entryOrder func([]*known)) {
	for _, stream := range m.ends {
		if stream < 0 {
			for _, k := range m.overdue {
				k.moves++
				m.line(k, k.stream%m.streams)
			}
			m.overdue = nil
			continue
		}
		var over []*known
		for _, k := range m.messages {
			if k.state == flying && k.over && k.stream == stream {
				over = append(over, k)
			}
		}
		entryOrder(over)
		for _, k := range over {
			m.count.Reclaimed++
			m.leave(k)
			if k.made >= m.attempts {
				m.bury(k)
			} else {
				m.line(k, stream%m.streams)
			}
		}
	}
	m.ends = nil
}

// read takes messages one by one, each from the next stream in which one waits.
func (m *model) read(prefer, most int) []*known {
	var got []*known
	if prefer >= 0 && len(m.lines[prefer]) > 0 {
		got = append(got, m.take(m.lines[prefer][0]))
	}
	for len(got) < most {
		next := -1
		for stream, line := range m.lines {
			if len(line) > 0 && (next < 0 || m.turn(stream) < m.turn(next)) {
				next = stream
			}
		}
		if next < 0 {
			break
		}
		got = append(got, m.take(m.lines[next][0]))
		m.cursor = next + 1
	}
	return got
}

// take delivers a message, or drops it if its deadline has come.
func (m *model) take(k *known) *known {
	m.leave(k)
	if k.worthNot {
		m.count.Expired++
		return nil
	}
	k.state = flying
	k.made++
	m.count.Delivered++
	return k
}

// expires reports whether the deadline of a message that waits has come.
func (m *model) expires() bool {
	for _, line := range m.lines {
		if slices.ContainsFunc(line, func(k *known) bool { return k.worthNot }) {
			return true
		}
	}
	return false
}

// turn is how far a stream's turn is away.
func (m *model) turn(stream int) int {
	if stream >= m.cursor {
		return stream
	}
	return stream + MaxStreams
}

// machine plays random histories on a queue and the model side by side.
type machine struct {
	t     *testing.T
	q     *Queue
	watch *Queue // the same queue, without a network that loses replies
	model *model
	lose  func(*rapid.T) func() bool // may arm the loss of the next reply
	clock int                        // what the next thing to be over gets as its time
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

func (c *machine) now() string {
	c.clock++
	return strconv.Itoa(c.clock)
}

var (
	someTenant = rapid.SampledFrom([]string{"a", "b", "c"})
	someDedupe = rapid.SampledFrom([]string{"", "", "", "", "x", "y"})
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
		if k.state == flying && k.receipt == receipt {
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
		d.Tenant, d.DedupeID = someTenant.Draw(r, "tenant"), someDedupe.Draw(r, "dedupe id")
		d.Delay = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Hour}).Draw(r, "delay")
		d.Deadline = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 0, 0, 2 * time.Hour, time.Millisecond}).Draw(r, "deadline")
		expires = expires || d.Deadline == time.Millisecond
		plain = plain && d.Delay == 0 && d.DedupeID == "" // what is not written counts in a batch as if it was
	}
	c.lose(r)
	written, err := c.q.WriteBatch(c.t.Context(), drafts...)
	if err != nil || len(written) != len(drafts) {
		r.Fatalf("write: %+v, %v", written, err)
	}
	for i, d := range drafts {
		if first, ok := c.model.deduped[dedupeName(d)]; ok {
			c.check(r, "duplicate", written[i], Written{ID: first, Duplicate: true}, nil)
			continue
		}
		id := written[i].ID
		c.check(r, "written", written[i], Written{ID: id}, nil)
		if c.model.messages[id] != nil {
			r.Fatalf("two messages have the id %s", id)
		}
		k := &known{id: id, worthNot: d.Deadline == time.Millisecond}
		c.model.messages[id] = k
		c.ids = append(c.ids, id)
		stream := c.streamOf(r, id)
		if plain && stream != c.model.emptiest(d.Tenant) {
			r.Fatalf("message %s of %s is in stream %d, want the emptiest, %d", id, d.Tenant, stream, c.model.emptiest(d.Tenant))
		} else if !slices.Contains(shuffleshard.Get(c.model.streams, c.model.per, d.Tenant), stream) {
			r.Fatalf("message %s of %s is in stream %d, which is not the tenant's", id, d.Tenant, stream)
		}
		if d.Delay > 0 {
			k.state, k.stream = aside, stream
		} else {
			c.model.line(k, stream)
		}
		c.model.count.Written++
		if d.DedupeID != "" {
			c.model.deduped[dedupeName(d)] = id
		}
	}
	if expires {
		passes(c.t, c.watch.run.Client, 2*time.Millisecond)
	}
}

// streamOf is the stream of a message that was just written.
func (c *machine) streamOf(r *rapid.T, id string) int {
	entry, place, _ := strings.Cut(id, ".")
	if place == "d" {
		entries, err := c.server(r, "XRANGE", c.key(":later"), entry, entry).AsXRange()
		if err != nil || len(entries) != 1 {
			r.Fatalf("message %s is not set aside: %v", id, err)
		}
		place = entries[0].FieldValues["s"]
	}
	stream, err := strconv.Atoi(place)
	if err != nil {
		r.Fatalf("message %s: %v", id, err)
	}
	return stream
}

// entryOrder sorts messages in flight as they lie in their stream.
func entryOrder(list []*known) {
	number := func(k *known) (n [2]int) {
		entry := strings.Split(strings.Split(k.receipt, ":")[1], "-")
		for i := range n {
			n[i], _ = strconv.Atoi(entry[i])
		}
		return n
	}
	slices.SortFunc(list, func(a, b *known) int {
		x, y := number(a), number(b)
		return slices.Compare(x[:], y[:])
	})
}

func (c *machine) read(r *rapid.T) {
	most := rapid.SampledFrom([]int{1, 1, 2, 3, 10}).Draw(r, "max")
	prefer := rapid.IntRange(-1, c.model.streams-1).Draw(r, "preferred stream")
	c.lose(r)
	messages, err := c.q.Read(c.t.Context(), ReadConfig{Max: most, Prefer: prefer + 1, Visibility: time.Hour})
	if c.model.paused {
		if !errors.Is(err, ErrPaused) {
			r.Fatalf("read of a paused queue = %d messages, %v", len(messages), err)
		}
		return
	}
	c.model.due(entryOrder)
	var want []*known
	if c.model.expires() {
		want = c.wantBesideExpired(r, messages, most)
	} else {
		want = c.model.read(prefer, most)
	}
	var wantIDs, gotIDs []string
	for _, k := range want {
		wantIDs = append(wantIDs, fmt.Sprint(k.id, " attempt ", k.made, " stream ", k.stream))
	}
	for _, m := range messages {
		gotIDs = append(gotIDs, fmt.Sprint(m.ID, " attempt ", m.Attempt, " stream ", m.Stream))
	}
	c.check(r, "read", gotIDs, wantIDs, nil)
	if (len(messages) == 0) != errors.Is(err, ErrEmpty) {
		r.Fatalf("read = %d messages, %v", len(messages), err)
	}
	for i, m := range messages {
		_, wasStale := c.model.stale[m.Receipt]
		if wasStale || slices.Contains(c.held, m.Receipt) {
			r.Fatalf("receipt %s was given out twice", m.Receipt)
		}
		want[i].receipt = m.Receipt
		c.held = append(c.held, m.Receipt)
	}
}

// wantBesideExpired is what a read should have brought while some messages have
// expired. In which turn those are dropped is the queue's affair, so any order
// will do in which each stream's own is kept.
func (c *machine) wantBesideExpired(r *rapid.T, got []Message, most int) []*known {
	live := map[int][]*known{}
	n := 0
	for stream, line := range c.model.lines {
		for _, k := range line {
			if !k.worthNot {
				live[stream] = append(live[stream], k)
				n++
			}
		}
	}
	var want []*known
	for _, m := range got {
		if line := live[m.Stream]; len(line) > 0 {
			want, live[m.Stream] = append(want, line[0]), line[1:]
		}
	}
	c.check(r, "number of messages beside expired ones", len(got), min(n, most), nil)
	for _, k := range want {
		c.model.take(k)
	}
	for _, line := range c.model.lines {
		for _, k := range line {
			if k.worthNot && c.entry(r, k) == "" {
				c.model.take(k)
			}
		}
	}
	cursor, err := c.server(r, "HGET", c.key(""), "cursor").AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		r.Fatalf("cursor: %v", err)
	}
	c.model.cursor = int(cursor)
	return want
}

// entry is the entry of a message that waits, if it is there.
func (c *machine) entry(r *rapid.T, k *known) string {
	entry, stream, _ := strings.Cut(k.id, ".")
	if text, err := c.server(r, "HGET", c.key(":places"), k.id).ToString(); err == nil {
		stream, entry, _ = strings.Cut(text, " ")
	}
	there, err := c.server(r, "XRANGE", c.key(":s:"+stream), entry, entry).ToArray()
	if err != nil {
		r.Fatalf("entry %s: %v", entry, err)
	}
	if len(there) == 0 {
		return ""
	}
	return entry
}

// forget is a reader that crashes: nobody has its receipts any more.
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
	want := 0
	for _, one := range []*known{k, k2} {
		if one != nil && one.state == flying {
			c.model.leave(one)
			c.model.count.Acked++
			want++
		}
	}
	if (want < 2) != errors.Is(err, ErrStale) {
		r.Fatalf("ack: error = %v, good receipts in the model: %d of 2", err, want)
	}
	c.check(r, "acknowledged", n, want, nil)
}

func (c *machine) nack(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	cfg := NackConfig{
		Delay: rapid.SampledFrom([]time.Duration{0, 0, time.Hour}).Draw(r, "delay"),
		Dead:  rapid.IntRange(0, 5).Draw(r, "dead") == 0,
	}
	c.lose(r)
	err := c.q.Nack(c.t.Context(), receipt, cfg)
	if (k == nil) != errors.Is(err, ErrStale) || k != nil && err != nil {
		r.Fatalf("nack: error = %v, good in the model: %v", err, k != nil)
	}
	if k == nil {
		return
	}
	stream := k.stream % c.model.streams
	c.model.leave(k)
	c.model.count.Nacked++
	switch {
	case cfg.Dead || k.made >= c.model.attempts:
		c.model.bury(k)
	case cfg.Delay > 0:
		k.state, k.stream = aside, stream
	default:
		c.model.line(k, stream)
	}
}

// handBack returns a message for which nobody was there any more.
func (c *machine) handBack(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	c.lose(r)
	c.q.handBack(c.t.Context(), []Message{{Receipt: receipt}})
	if k != nil {
		c.model.leave(k)
		k.made--
		c.model.count.Returned++
		c.model.line(k, k.stream%c.model.streams)
	}
}

func (c *machine) extend(r *rapid.T) {
	receipt, k := c.someReceipt(r)
	c.lose(r)
	good, err := c.q.Extend(c.t.Context(), time.Hour, receipt)
	c.check(r, "extended", good, []bool{k != nil}, err)
	if k != nil {
		k.over = false
	}
}

func (c *machine) cancel(r *rapid.T) {
	k := c.someMessage(r)
	places := map[state]Place{gone: Nowhere, isDead: Nowhere, aside: Delayed, waiting: Waiting, flying: InFlight}
	want := []Place{places[k.state], Nowhere}
	if k.state != gone && k.state != isDead {
		c.model.leave(k)
		c.model.count.Cancelled++
	}
	c.lose(r)
	got, err := c.q.Cancel(c.t.Context(), k.id, k.id)
	c.check(r, "cancelled", got, want, err)
}

// browse turns the pages of what is in a place, and other things happen in
// between. Each page has what is in that place then, and what is there all the
// time comes once.
func (c *machine) browse(r *rapid.T) {
	cfg := BrowseConfig{
		Place: rapid.SampledFrom([]Place{Waiting, InFlight, Delayed}).Draw(r, "place"),
		Max:   rapid.IntRange(1, 4).Draw(r, "max"),
	}
	at := map[Place]state{Waiting: waiting, InFlight: flying, Delayed: aside}[cfg.Place]
	stays := map[string]int{} // moves, when the first page was turned
	for id, k := range c.model.messages {
		if k.state == at {
			stays[id] = k.moves
		}
	}
	seen := map[string]int{}
	for disturbances := rapid.IntRange(0, 4).Draw(r, "disturbances"); ; disturbances-- {
		c.lose(r)
		page, err := c.q.Browse(c.t.Context(), cfg)
		if err != nil || len(page.Messages) > cfg.Max {
			r.Fatalf("browse = %d messages, %v", len(page.Messages), err)
		}
		for _, m := range page.Messages {
			k := c.model.messages[m.ID]
			stream := k.stream
			if at == aside {
				stream %= c.model.streams
			}
			c.check(r, "browsed "+m.ID, []any{at, m.Attempt, m.Stream, m.Garbled}, []any{k.state, k.made, stream, ""}, nil)
			seen[m.ID]++
		}
		if cfg.After = page.Next; cfg.After == "" {
			break
		}
		if disturbances > 0 {
			rapid.SampledFrom([]func(*rapid.T){c.write, c.read, c.cancel, c.resize, c.pause}).Draw(r, "disturbance")(r)
		}
	}
	for id, moves := range stays {
		if k := c.model.messages[id]; k.moves == moves && seen[id] != 1 {
			r.Fatalf("%s was %s all the time and came %d times", id, at, seen[id])
		}
	}
}

func (c *machine) redrive(r *rapid.T) {
	k := c.someMessage(r, isDead, isDead, gone, waiting)
	want := 0
	if k.state == isDead {
		want = 1
	}
	c.lose(r)
	n, err := c.q.Redrive(c.t.Context(), k.id)
	c.check(r, "redriven", n, want, err)
	if want == 1 {
		c.model.leave(k)
		k.made, k.worthNot = 0, false
		c.model.count.Redriven++
		// Any stream that writers use will do; the server knows which one it is.
		text, err := c.server(r, "HGET", c.key(":places"), k.id).ToString()
		place, _, _ := strings.Cut(text, " ")
		stream, bad := strconv.Atoi(place)
		if err != nil || bad != nil || stream >= c.model.streams {
			r.Fatalf("a redriven message is at %q, %v", text, err)
		}
		c.model.line(k, stream)
	}
}

func (c *machine) purgeDead(r *rapid.T) {
	k := c.someMessage(r, isDead, isDead, gone, flying)
	want := 0
	if k.state == isDead {
		c.model.leave(k)
		c.model.count.Purged++
		want = 1
	}
	lost := c.lose(r)
	n, err := c.q.Purge(c.t.Context(), k.id)
	if lost() { // the second run finds nothing
		want = 0
	}
	c.check(r, "purged", n, want, err)
}

func (c *machine) resize(r *rapid.T) {
	streams := rapid.IntRange(1, 6).Draw(r, "streams")
	per := rapid.IntRange(0, streams).Draw(r, "per tenant")
	c.lose(r)
	if err := c.watch.Resize(c.t.Context(), streams, per); err != nil {
		r.Fatalf("resize: %v", err)
	}
	if per == 0 {
		per = c.model.per
	}
	c.model.streams, c.model.per = streams, min(per, streams)
}

func (c *machine) pause(r *rapid.T) {
	call := c.q.Pause
	if c.model.paused {
		call = c.q.Resume
	}
	c.lose(r)
	if err := call(c.t.Context()); err != nil {
		r.Fatalf("pause or resume: %v", err)
	}
	c.model.paused = !c.model.paused
}

// over lets the visibility or the delay of a message be over.
func (c *machine) over(r *rapid.T) {
	k := c.someMessage(r, aside, flying)
	if k.over || len(c.model.ends) == 4 { // a read looks after four streams at most
		r.Skip("it is already")
	}
	c.bringAbout(r, k)
}

func (c *machine) bringAbout(r *rapid.T, k *known) {
	k.over = true
	if k.state == flying {
		entry := strings.Split(k.receipt, ":")[1]
		claimed, err := c.server(r, "XCLAIM", c.key(fmt.Sprint(":s:", k.stream)), GroupDefault, "somebody", "0", entry, "TIME", "1", "JUSTID").AsStrSlice()
		c.check(r, "what is over", claimed, []string{entry}, err)
		c.server(r, "ZADD", c.key(":due"), "LT", c.now(), strconv.Itoa(k.stream))
		c.model.end(k.stream)
		return
	}
	at := c.now()
	entry, dot, _ := strings.Cut(k.id, ".")
	if text, err := c.server(r, "HGET", c.key(":places"), k.id).ToString(); err == nil {
		_, entry, _ = strings.Cut(text, " ")
	} else if dot != "d" {
		r.Fatalf("a message that is set aside has no place: %v", err)
	}
	n, err := c.server(r, "ZADD", c.key(":delayed"), "XX", "CH", at, entry).AsInt64()
	c.check(r, "what is due", n, int64(1), err)
	c.server(r, "ZADD", c.key(":due"), "LT", at, "d")
	c.model.overdue = append(c.model.overdue, k)
	c.model.end(-1)
}

// dedupeName is the name under which a queue knows a draft's dedupe id.
func dedupeName(d Draft) string {
	if d.DedupeID == "" {
		return ""
	}
	return fmt.Sprintf("%d:%s:%s", len(d.Tenant), d.Tenant, d.DedupeID)
}

// window lets the window of a dedupe id be over.
func (c *machine) window(r *rapid.T) {
	name := dedupeName(Draft{
		Tenant: someTenant.Draw(r, "tenant"), DedupeID: rapid.SampledFrom([]string{"x", "y"}).Draw(r, "dedupe id"),
	})
	c.server(r, "ZADD", c.key(":dedupes"), "XX", "1", name)
	delete(c.model.deduped, name)
}

// invariant: what the queue says it holds is what the model holds.
func (c *machine) invariant(r *rapid.T) {
	ctx := c.t.Context()
	s, err := c.watch.Stats(ctx)
	if err != nil {
		r.Fatalf("stats: %v", err)
	}
	count := map[state]int{}
	inStream := map[int][2]int{}
	for _, k := range c.model.messages {
		count[k.state]++
		if at := inStream[k.stream]; k.state == waiting || k.state == flying {
			at[map[state]int{waiting: 0, flying: 1}[k.state]]++
			inStream[k.stream] = at
		}
	}
	delete(count, gone)
	got := map[state]int{waiting: s.Waiting, flying: s.InFlight, aside: s.Delayed, isDead: s.Dead}
	maps.DeleteFunc(got, func(_ state, n int) bool { return n == 0 })
	c.check(r, "sizes", got, count, nil)
	streams := map[int][2]int{}
	for _, one := range s.Streams {
		streams[one.Index] = [2]int{one.Waiting, one.InFlight}
	}
	c.check(r, "streams", streams, inStream, nil)
	c.check(r, "shape", [2]int{s.StreamCount, s.PerTenant}, [2]int{c.model.streams, c.model.per}, nil)
	c.check(r, "paused", s.Paused, c.model.paused, nil)
	c.check(r, "counters", s.Counters, c.model.count, nil)
	n, err := c.watch.Len(ctx)
	c.check(r, "Len", n, count[waiting], err)
	var dead, wantDead []string
	for m, err := range c.watch.Dead(ctx) {
		if err != nil {
			r.Fatalf("dead: %v", err)
		}
		dead = append(dead, fmt.Sprint(m.ID, " attempt ", m.Attempt))
	}
	for _, k := range c.model.dead {
		wantDead = append(wantDead, fmt.Sprint(k.id, " attempt ", k.made))
	}
	c.check(r, "the dead", dead, wantDead, nil)
}

// finish works everything off: each message that is neither acknowledged nor
// cancelled, expired or purged comes out, and nothing of it is left in Redis.
func (c *machine) finish(r *rapid.T) {
	if c.model.paused {
		c.pause(r)
	}
	for _, id := range c.ids {
		switch k := c.model.messages[id]; {
		case k.state == isDead:
			n, err := c.watch.Purge(c.t.Context(), id)
			c.check(r, "purged in the end", n, 1, err)
			c.model.leave(k)
		case (k.state == flying || k.state == aside) && !k.over:
			c.bringAbout(r, k)
		}
	}
	left := map[string]bool{}
	for id, k := range c.model.messages {
		if k.state != gone && !k.worthNot {
			left[id] = true
		}
	}
	seen := map[string]bool{}
	for range 20 { // a read looks after four streams at most
		messages, err := c.watch.Read(c.t.Context(), ReadConfig{Max: 100})
		if err != nil && !errors.Is(err, ErrEmpty) {
			r.Fatalf("read: %v", err)
		}
		for _, m := range messages {
			if seen[m.ID] {
				r.Fatalf("%s came out twice", m.ID)
			}
			seen[m.ID] = true
			if _, err := c.watch.Ack(c.t.Context(), m.Receipt); err != nil {
				r.Fatalf("ack: %v", err)
			}
		}
	}
	for m, err := range c.watch.Dead(c.t.Context()) {
		if err != nil {
			r.Fatalf("dead: %v", err)
		}
		seen[m.ID] = true
		if _, err := c.watch.Purge(c.t.Context(), m.ID); err != nil {
			r.Fatalf("purge: %v", err)
		}
	}
	c.check(r, "what came out in the end", seen, left, nil)
	for _, part := range []string{":waits", ":delayed", ":places"} {
		n, err := c.server(r, "EXISTS", c.key(part)).AsInt64()
		c.check(r, "key "+part+" is left over", n, int64(0), err)
	}
	for _, part := range []string{":s:0", ":s:1", ":s:2", ":s:3", ":s:4", ":s:5", ":later", ":dead"} {
		n, err := c.server(r, "XLEN", c.key(part)).AsInt64()
		c.check(r, "entries left in "+part, n, int64(0), err)
	}
	if _, err := c.watch.Delete(c.t.Context()); err != nil {
		r.Fatal(err)
	}
}

// TestModel plays random histories on a server, through a proxy that executes and
// then loses replies, and with MILLRACE_SOAK on miniredis, which is slow at it.
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
			if network.client == mini && os.Getenv("MILLRACE_SOAK") == "" {
				t.Skip("set MILLRACE_SOAK to run it")
			}
			rapid.Check(t, func(r *rapid.T) {
				name := redistest.Name(t)
				cfg := Config{
					Streams: rapid.IntRange(1, 5).Draw(r, "streams"), PerTenant: rapid.IntRange(1, 3).Draw(r, "per tenant"),
					MaxAttempts: rapid.IntRange(1, 3).Draw(r, "attempts"), DedupeWindow: time.Hour,
				}
				c := &machine{
					t: t, q: openOn(t, network.client, name, cfg), watch: openOn(t, network.watches, name, cfg),
					model: newModel(cfg.Streams, cfg.PerTenant, cfg.MaxAttempts), lose: network.lose,
				}
				c.write(r)
				r.Repeat(map[string]func(*rapid.T){
					"write": c.write, "read": c.read, "read again": c.read, "forget": c.forget, "ack": c.ack, "nack": c.nack,
					"hand back": c.handBack, "extend": c.extend, "cancel": c.cancel, "redrive": c.redrive, "purge": c.purgeDead,
					"resize": c.resize, "pause": c.pause, "browse": c.browse, "over": c.over, "over too": c.over, "window": c.window,
					"": c.invariant,
				})
				c.finish(r)
			})
		})
	}
}

// TestMiniredis is the life of messages on the embedded stand-in for a server.
func TestMiniredis(t *testing.T) {
	t.Parallel()
	q := openOn(t, miniClient(t), "x", Config{})
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	write(t, q, "a:1")
	m := <-got
	good, err := q.Extend(t.Context(), MinVisibility, m.Receipt)
	want(t, "extend", good, []bool{true}, err)
	again := eventually(t, q)
	if again.ID != m.ID || again.Attempt != 2 {
		t.Errorf("read = %+v, want %s at attempt 2", again, m.ID)
	}
	if err := q.Nack(t.Context(), again.Receipt, NackConfig{Delay: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
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
