package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/schedule"
)

// queue is the methods that a queue and one over several parts share.
type queue interface {
	Write(ctx context.Context, d fairqueue.Draft) (string, error)
	WriteBatch(ctx context.Context, drafts ...fairqueue.Draft) ([]fairqueue.Written, error)
	Read(ctx context.Context, cfg fairqueue.ReadConfig) ([]fairqueue.Message, error)
	Consume(ctx context.Context, cfg fairqueue.ConsumeConfig, handler fairqueue.Handler) error
	Ack(ctx context.Context, receipts ...string) (int, error)
	Nack(ctx context.Context, cfg fairqueue.NackConfig, receipts ...string) (int, error)
	Extend(ctx context.Context, d time.Duration, receipts ...string) ([]bool, error)
	Cancel(ctx context.Context, ids ...string) ([]fairqueue.State, error)
	PurgeTenant(ctx context.Context, tenant string) (int, error)
	Len(ctx context.Context) (int, error)
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

type limits interface {
	Set(ctx context.Context, tenant string, l fairqueue.OwnLimits) error
	SetIfUnset(ctx context.Context, tenant string, l fairqueue.OwnLimits) error
	Clear(ctx context.Context, tenant string, names ...string) error
	Pause(ctx context.Context, tenant string, d time.Duration) error
	Resume(ctx context.Context, tenant string) error
}

// session is a queue as one process sees it.
type session struct {
	queue

	limits limits
	stats  func(ctx context.Context) error
	parts  []*fairqueue.Queue // one of a queue without parts
	client []rueidis.Client   // of each part
}

func sessionOf(q queue, clients []rueidis.Client) session {
	if q, ok := q.(*parts.Queue); ok {
		return session{q, q.Limits(), func(ctx context.Context) error { _, err := q.Stats(ctx); return err }, q.Parts(), clients}
	}
	one := q.(*fairqueue.Queue)
	return session{one, one.Limits(), func(ctx context.Context) error { _, err := one.Stats(ctx); return err }, []*fairqueue.Queue{one}, clients}
}

// Messages of the last two tenants may be purged.
var (
	everyTenant  = []string{"a", "b\x01", "c\x02c", "d", "purged", "purged too"}
	purgedTenant = everyTenant[4:]
)

var everySecond, _ = schedule.Every(time.Second)

// refusals are the errors that a call may return because of other calls, or of trouble with the server.
var refusals = []error{
	fairqueue.ErrEmpty, fairqueue.ErrPaused, fairqueue.ErrTenantFull, millrace.ErrNotFound, millrace.ErrFull,
	millrace.ErrUncertain, millrace.ErrStale, millrace.ErrPartial, context.Canceled, context.DeadlineExceeded,
}

// alsoRefusals are those that only some calls may return.
var alsoRefusals = map[string][]error{
	"write": {fairqueue.ErrBatch}, "write a position": {fairqueue.ErrBatch},
	"consume":    {fairqueue.ErrUnsettled, rueidis.ErrClosing},
	"set limits": {millrace.ErrBadArgument}, "set unset limits": {millrace.ErrBadArgument}, "clear limits": {millrace.ErrBadArgument}, // with streams
	"pause a tenant": {millrace.ErrBadArgument}, "resume a tenant": {millrace.ErrBadArgument}, "purge": {millrace.ErrBadArgument},
	"resize": {millrace.ErrBadArgument}, // with limits
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// caller makes one random call after the other.
type caller struct {
	session

	s      *storm
	r      *rand.Rand
	number int
	drafts int
	ctx    context.Context //nolint:containedctx // of the present call

	held     []fairqueue.Message
	position int64
	pending  *fairqueue.Draft // has that position, and may have been written
	batches  []stormBatch
}

// call is a call, and how often it is made beside others.
type call struct {
	name   string
	weight int
	make   func() error
}

// calls are all calls.
func (c *caller) calls() []call {
	return []call{
		{"write", 30, c.write},
		{"write a position", 5, c.writePosition},
		{"read", 25, c.read},
		{"ack", 20, c.ack},
		{"nack", 8, c.nack},
		{"exchange", 10, c.exchange},
		{"extend", 5, c.extend},
		{"forget", 1, func() error { c.held = nil; return nil }}, // as a reader that dies
		{"cancel", 2, c.cancel},
		{"check", 3, c.check},
		{"len", 1, func() error { return second(c.Len(c.ctx)) }},
		{"stats", 1, func() error { return c.stats(c.ctx) }},
		{"ready", 1, func() error { return c.part().Ready(c.ctx) }},
		{"browse", 2, func() error {
			return third(c.part().Browse(c.ctx, fairqueue.BrowseConfig{State: c.state(), Max: pick(c.r, 1, 50), Tenant: pick(c.r, "", "a")}))
		}},
		{"search", 1, func() error {
			return second(c.part().Search(c.ctx, fairqueue.SearchConfig{State: c.state(), Text: "7"}))
		}},
		{"pause", 1, func() error { return c.Pause(c.ctx) }},
		{"resume", 3, func() error { return c.Resume(c.ctx) }},
		{"purge", 1, func() error { return second(c.PurgeTenant(c.ctx, pick(c.r, purgedTenant...))) }},
		{"resize", 2, func() error {
			if c.s.cfg.Streams == 0 {
				return nil
			}
			return c.part().Resize(c.ctx, pick(c.r, 0, 2, 4, 7), 0)
		}},
		{"redrive", 1, func() error { return c.deadIDs(fairqueue.DeadLetters.Redrive, c.s.someIDs(c.r, 5, false)...) }},
		{"redrive all", 1, func() error { return third(c.part().Retry(c.ctx, fairqueue.SearchConfig{State: fairqueue.Dead})) }},
		{"redrive some", 1, c.redriveSome},
		{"purge dead", 1, func() error { return c.deadIDs(fairqueue.DeadLetters.Purge, c.s.someIDs(c.r, 2, true)...) }},
		{"purge all dead", 1, func() error {
			return third(c.part().Dead().PurgeMatching(c.ctx, fairqueue.SearchConfig{Tenant: pick(c.r, purgedTenant...)}))
		}},
		{"failures", 1, func() error {
			return third(c.part().Failures(c.ctx, fairqueue.SearchConfig{State: pick(c.r, fairqueue.Delayed, fairqueue.Dead)}))
		}},
		{"retry", 1, func() error {
			return c.byPart(func(q *fairqueue.Queue, ids ...string) error {
				return third(q.Retry(c.ctx, fairqueue.SearchConfig{}, ids...))
			}, c.s.someIDs(c.r, 5, false)...)
		}},
		{"retry all", 1, func() error { return third(c.part().Retry(c.ctx, fairqueue.SearchConfig{})) }},
		{"keep dead", 1, func() error {
			if c.s.dropsDead {
				return c.part().Dead().Keep(c.ctx, pick(c.r, 3, 10), pick(c.r, 0, 100*time.Millisecond))
			}
			return c.part().Dead().Keep(c.ctx, pick(c.r, 0, 10_000), 0)
		}},
		{"set limits", 1, func() error { return c.limits.Set(c.ctx, c.tenant(), c.limit()) }},
		{"set unset limits", 1, func() error { return c.limits.SetIfUnset(c.ctx, c.tenant(), c.limit()) }},
		{"clear limits", 1, func() error {
			return c.limits.Clear(c.ctx, c.tenant(), pick(c.r, nil, fairqueue.NamesOf(c.limit()))...)
		}},
		{"limits of", 1, func() error { return second(c.part().Limits().Get(c.ctx, c.tenant())) }},
		{"all limits", 1, func() error { return last(c.part().Limits().All(c.ctx)) }},
		{"pause a tenant", 1, func() error {
			return c.limits.Pause(c.ctx, pick(c.r, everyTenant...), pick(c.r, 0, 50*time.Millisecond))
		}},
		{"resume a tenant", 3, func() error { return c.limits.Resume(c.ctx, pick(c.r, everyTenant...)) }},
		{"set a schedule", 2, func() error { return c.part().Schedules().Set(c.ctx, c.schedule()) }},
		{"pause a schedule", 1, func() error { return c.part().Schedules().Pause(c.ctx, c.schedule().Name) }},
		{"resume a schedule", 1, func() error { return c.part().Schedules().Resume(c.ctx, c.schedule().Name) }},
		{"remove a schedule", 1, func() error { return c.part().Schedules().Remove(c.ctx, c.schedule().Name) }},
		{"run a schedule", 1, func() error { return second(c.part().Schedules().Run(c.ctx, c.schedule().Name)) }},
		{"a schedule", 1, func() error { return second(c.part().Schedules().Get(c.ctx, c.schedule().Name)) }},
		{"all schedules", 1, func() error { return last(c.part().Schedules().All(c.ctx)) }},
		{"sources", 1, func() error { return second(c.part().Sources().All(c.ctx)) }},
		{"position", 1, c.at},
		{"set a position", 1, func() error { return c.part().Sources().SetPosition(c.ctx, "an operator's", pick(c.r, int64(0), 7)) }},
		{"list", 1, func() error { return last(fairqueue.List(c.ctx, pick(c.r, c.client...))) }},
		{"create a batch", 2, c.createBatch},
		{"close a batch", 2, c.closeBatch},
		{"cancel a batch", 1, c.cancelBatch},
		{"show a batch", 1, c.showBatch},
		{"upkeep", 3, c.upkeep},
	}
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

// last returns the last error of a listing.
func last[T any](all iter.Seq2[T, error]) (err error) {
	for _, err = range all {
	}
	return err
}

func (c *caller) part() *fairqueue.Queue { return pick(c.r, c.parts...) }

func (c *caller) tenant() string { return pick(c.r, append([]string{""}, everyTenant...)...) }

func (c *caller) state() fairqueue.State {
	return pick(c.r, fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Dead)
}

// run makes calls until the storm is over.
func (c *caller) run() {
	var deck []call // each as often as its weight says
	for _, e := range c.calls() {
		deck = append(deck, slices.Repeat([]call{e}, e.weight)...)
	}
	for c.s.blows() {
		e := pick(c.r, deck...)
		var cancel context.CancelFunc
		c.ctx, cancel = context.WithTimeout(context.Background(), pick(c.r, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond))
		err := e.make()
		cancel()
		c.s.note(e.name, err)
	}
}

// draft returns a message with a body of its own, and notes it.
func (c *caller) draft() fairqueue.Draft {
	c.drafts++
	d := fairqueue.Draft{
		Tenant: pick(c.r, everyTenant...), Priority: pick(c.r, 0, 0, 0, -4, 4), Cost: pick(c.r, 1, 1, 1, 1, 30),
		Body: fmt.Append(nil, c.number, "-", c.drafts, strings.Repeat(" x", pick(c.r, 0, 0, 100, 5000))),
	}
	switch c.r.IntN(10) {
	case 0:
		d.Delay = pick(c.r, time.Millisecond, 100*time.Millisecond, 500*time.Millisecond)
	case 1:
		d.TTL = pick(c.r, 20*time.Millisecond, time.Hour)
	case 2:
		d.Headers = map[string]string{"h": pick(c.r, "1", "2")}
	}
	b, counted := c.batch()
	if counted = counted && c.r.IntN(2) == 0; counted {
		d.Batch = b.mark(c.session)
	}
	if slices.Contains(purgedTenant, d.Tenant) || d.TTL > 0 || counted && b.cancellable {
		c.s.excuse(string(d.Body))
	}
	return d
}

func (c *caller) write() error {
	if c.s.crowded() {
		return nil
	}
	if c.r.IntN(3) == 0 {
		d := c.draft()
		id, err := c.Write(c.ctx, d)
		if err == nil {
			c.s.wrote(id, d.Body)
		}
		return err
	}
	drafts := make([]fairqueue.Draft, 1+c.r.IntN(8))
	for i := range drafts {
		drafts[i] = c.draft()
		drafts[i].DedupeID = pick(c.r, "x", "y", "", "", "", "", "", "", "", "")
	}
	written, err := c.WriteBatch(c.ctx, drafts...)
	for i, w := range written {
		if w.ID != "" && !w.Duplicate {
			c.s.wrote(w.ID, drafts[i].Body)
		}
	}
	return err
}

// writePosition writes the next position of the caller's own source, again and again until it is sure.
func (c *caller) writePosition() error {
	if c.pending == nil {
		d := c.draft()
		if len(c.parts) > 1 {
			d.Batch = "" // it may lie in another part
		}
		d.Source, d.Position = fmt.Sprint("source ", c.number), c.position+1
		c.pending = &d
	}
	id, err := c.Write(c.ctx, *c.pending)
	if errors.Is(err, fairqueue.ErrBatch) { // it was not written, and is not going to be
		c.pending.Batch = ""
	}
	if err == nil {
		c.s.wrote(id, c.pending.Body)
		c.position, c.pending = c.pending.Position, nil
	}
	return err
}

func (c *caller) read() error {
	cfg := fairqueue.ReadConfig{
		Max: pick(c.r, 1, 1, 3, 50), Block: pick(c.r, 0, 0, 0, 0, 20*time.Millisecond, -1),
		Visibility: pick(c.r, 10*time.Millisecond, 100*time.Millisecond, 20*time.Second),
	}
	if c.r.IntN(2) == 0 {
		cfg.Worker, cfg.Concurrency = fmt.Sprint("worker ", c.number), 4
	}
	messages, err := c.Read(c.ctx, cfg)
	for _, m := range messages {
		c.s.saw(m)
	}
	c.held = append(c.held, messages...)
	return err
}

// take takes a few of the messages that the caller holds, and returns their receipts.
func (c *caller) take() (some []fairqueue.Message, receipts []string) {
	n := min(len(c.held), pick(c.r, 1, 1, 1, 5))
	some, c.held = slices.Clone(c.held[:n]), c.held[n:]
	for _, m := range some {
		receipts = append(receipts, m.Receipt)
	}
	return some, receipts
}

func (c *caller) ack() error {
	some, receipts := c.take()
	for _, m := range some {
		c.s.handled(m)
	}
	n, err := c.Ack(c.ctx, receipts...)
	if err == nil && n == len(some) {
		for _, m := range some {
			c.s.over(m.ID)
		}
	}
	return err
}

func (c *caller) nack() error {
	some, receipts := c.take()
	cfg := fairqueue.NackConfig{Delay: pick(c.r, 0, 10*time.Millisecond, 300*time.Millisecond), Reason: pick(c.r, "", "reason")}
	switch c.r.IntN(4) {
	case 0:
		cfg.Dead = true
		c.s.dies(some...)
	case 1:
		cfg.Unstarted = true
	}
	_, err := c.Nack(c.ctx, cfg, receipts...)
	return err
}

// exchange settles what a worker has handled in its round, and takes more.
func (c *caller) exchange() error {
	q, ok := c.queue.(*fairqueue.Queue)
	if !ok { // parts have no such call
		return nil
	}
	some, _ := c.take()
	ended, failed := map[string]error{}, errors.New("failed")
	for _, m := range some {
		switch c.r.IntN(5) {
		case 0:
			ended[m.Receipt] = failed
		case 1:
			ended[m.Receipt] = fairqueue.NoRetry(failed)
			c.s.dies(m)
		case 2:
			ended[m.Receipt] = fairqueue.RetryAfter(10*time.Millisecond, failed)
		case 3:
			ended[m.Receipt] = fairqueue.Throttle(10*time.Millisecond, failed)
		default:
			ended[m.Receipt] = nil
			c.s.handled(m)
		}
	}
	messages, stale, err := q.Exchange(c.ctx, ended, fairqueue.ReadConfig{
		Max: pick(c.r, 1, 5), Block: pick(c.r, 0, 0, 20*time.Millisecond), Worker: fmt.Sprint("worker ", c.number), Concurrency: 4,
	})
	for _, m := range messages {
		c.s.saw(m)
	}
	c.held = append(c.held, messages...)
	if err == nil {
		for _, m := range some {
			if ended[m.Receipt] == nil && !slices.Contains(stale, m.Receipt) {
				c.s.over(m.ID)
			}
		}
	}
	return err
}

func (c *caller) extend() error {
	var receipts []string
	for _, m := range c.held {
		receipts = append(receipts, m.Receipt)
	}
	good, err := c.Extend(c.ctx, pick(c.r, 10*time.Millisecond, 20*time.Second), receipts...)
	if err == nil && len(good) != len(receipts) {
		return fmt.Errorf("%d answers for %d receipts", len(good), len(receipts))
	}
	return err
}

func (c *caller) cancel() error {
	ids := c.s.someIDs(c.r, 3, true)
	states, err := c.Cancel(c.ctx, ids...)
	if err == nil {
		for i, state := range states {
			if state != fairqueue.Gone {
				c.s.over(ids[i])
			}
		}
	}
	return err
}

func (c *caller) check() error {
	wrong, err := c.part().Check(c.ctx)
	if len(wrong) > 0 {
		return fmt.Errorf("check: %q", wrong)
	}
	return err
}

// deadIDs calls the parts of the ids, one after the other.
func (c *caller) deadIDs(call func(d fairqueue.DeadLetters, ctx context.Context, ids ...string) (int, error), ids ...string) error {
	return c.byPart(func(q *fairqueue.Queue, ids ...string) error { return second(call(q.Dead(), c.ctx, ids...)) }, ids...)
}

// byPart makes a call to each part that has some of the ids.
func (c *caller) byPart(call func(q *fairqueue.Queue, ids ...string) error, ids ...string) error {
	of := make([][]string, len(c.parts))
	for _, id := range ids {
		part := 0
		if index, rest, found := strings.Cut(id, "."); found {
			part, _ = strconv.Atoi(index)
			id = rest
		}
		of[part] = append(of[part], id)
	}
	for i, part := range c.parts {
		if len(of[i]) > 0 {
			if err := call(part, of[i]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// redriveSome redrives dead messages while it lists them.
func (c *caller) redriveSome() (err error) {
	q := c.part()
	for m, failed := range q.Dead().All(c.ctx) {
		if err = failed; err == nil && c.r.IntN(2) == 0 {
			_, err = q.Dead().Redrive(c.ctx, m.ID)
		}
	}
	return err
}

func (c *caller) limit() (l fairqueue.OwnLimits) {
	switch c.r.IntN(6) {
	case 0:
		l.Weight = new(pick(c.r, 0.5, 1, 4))
	case 1:
		l.MaxInFlight = new(pick(c.r, 0, 2, 4))
	case 2:
		l.MaxShare = new(pick(c.r, 0, 0.3))
	case 3:
		l.Rate, l.Burst = new(pick(c.r, 20.0, 200)), new(pick(c.r, 2, 5))
	case 4:
		l.MaxWaiting = new(pick(c.r, 0, 20))
	case 5:
		l.Paused = new(c.r.IntN(4) == 0)
	}
	return l
}

func (c *caller) schedule() fairqueue.Schedule {
	return fairqueue.Schedule{
		Name: pick(c.r, "s1", "s2"), Spec: everySecond, Missed: pick(c.r, schedule.Once, schedule.Skip), Jitter: pick(c.r, 0, 100*time.Millisecond),
		Draft: fairqueue.Draft{Tenant: pick(c.r, everyTenant...), Body: []byte("tick")},
	}
}

// at asks where the caller's source is.
func (c *caller) at() error {
	source := fmt.Sprint("source ", c.number)
	at, err := c.part().Sources().Position(c.ctx, source)
	if at > c.position+1 || err == nil && len(c.parts) == 1 && at < c.position {
		return fmt.Errorf("%s has position %d, and %d was written last", source, at, c.position+1)
	}
	return err
}

func (c *caller) upkeep() error {
	for _, job := range fairqueue.Jobs(pick(c.r, c.client...)) {
		if _, err := job.Slice(c.ctx); err != nil {
			return err
		}
	}
	return nil
}

// handle is a handler. A message's outcome depends on the seed, on its body and on the attempt.
func (s *storm) handle(ctx context.Context, m fairqueue.Message) error {
	s.saw(m)
	hash := fnv.New64()
	_, _ = hash.Write(m.Body)
	r := rand.New(rand.NewPCG(s.seed, hash.Sum64()+uint64(m.Attempt)))
	failure := errors.New("the handler failed")
	switch r.IntN(16) {
	case 0:
		return failure
	case 1:
		s.dies(m)
		return fairqueue.NoRetry(failure)
	case 2:
		return fairqueue.RetryAfter(10*time.Millisecond, failure)
	case 3:
		return fairqueue.Throttle(10*time.Millisecond, failure)
	case 4:
		panic(failure)
	case 5:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	}
	s.handled(m)
	return nil
}
