package fairqueue

import (
	"context"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/script"
)

// shortestAsk is the shortest time that a read waits for the server's answer: with less, a distant server
// would never be read.
const shortestAsk = 100 * time.Millisecond

// ReadConfig configures a read. The zero value reads one message if there is one.
type ReadConfig struct {
	// Max is the most messages to take, up to 1,000. Defaults to 1.
	Max int

	// Block is how long to wait for the first message, and for an answer of the server, which
	// has at least 100 ms. A negative one waits until the context ends. Defaults to 0, not
	// at all.
	Block time.Duration

	// Visibility is the time after which a message that was neither acknowledged nor extended
	// comes again: 10 ms to 12 h, in whole milliseconds. Defaults to 30 s.
	Visibility time.Duration

	// Worker names the reader, which counts as one of [Queue.Consume] then: tenants share its handlers, it is in
	// [Stats].Readers, and [OwnLimits].MaxShare holds. No other worker has this name; one that reads through several
	// processes is one. It is known for as long as it reads, and then for Visibility, 15 s at least and a minute at most.
	// One that ends without a word is among [Stats].Vanished then: see Leave. At most 512 bytes without control characters.
	// Defaults to none.
	Worker string

	// Concurrency is how many messages the Worker handles at once, up to 1,000. Defaults to 10, or to all of the Pool.
	Concurrency int

	// Pool is shared with other reads of the Worker, from other queues: the Worker reports an equal share of its
	// handlers to each queue. Read takes no handler from it. Defaults to none.
	Pool *Pool

	// Leave ends the Worker: the call takes no messages, and the queue, and those of its Pool, forget it at once. What it settles afterwards is settled all the same. Defaults to false.
	Leave bool
}

func (c ReadConfig) withDefaults() (ReadConfig, error) {
	if c.Max == 0 {
		c.Max = 1
	}
	if c.Visibility == 0 {
		c.Visibility = defaultVisibility
	}
	if c.Max < 0 || c.Max > maxRead {
		return c, millrace.ErrBadArgument.Errorf("a read takes 1 to %d messages, not %d", maxRead, c.Max)
	}
	if c.Worker == "" && (c.Concurrency != 0 || c.Pool != nil) {
		return c, millrace.ErrBadArgument.Errorf("Concurrency and Pool are those of a Worker, which has no name")
	}
	if c.Worker == "" && c.Leave {
		return c, millrace.ErrBadArgument.Errorf("Leave ends a Worker, which has no name")
	}
	if c.Concurrency == 0 && c.Pool != nil {
		c.Concurrency = c.Pool.size
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Concurrency < 0 || c.Concurrency > maxConcurrency {
		return c, millrace.ErrBadArgument.Errorf("Concurrency is %d, not 1 to %d", c.Concurrency, maxConcurrency)
	}
	if c.Worker != "" {
		if err := names.CheckText(millrace.ErrBadArgument, "name of a worker", c.Worker, maxLabel); err != nil {
			return c, err
		}
	}
	return c, checkVisibility(c.Visibility)
}

func checkVisibility(d time.Duration) error {
	if d < minVisibility || d > maxVisibility {
		return millrace.ErrBadArgument.Errorf("a visibility is from %s to %s, not %s", minVisibility, maxVisibility, d)
	}
	return nil
}

// Read takes messages, the head of one flow after the other. It returns at least one, or an
// error; with [ReadConfig].Leave none. Others do not see a message until its visibility ends. Read makes a call for each
// 100 messages, or 50 with streams or limits, and ends early after a mebibyte. Goroutines share calls.
//
// Without a [ReadConfig].Worker, messages that are read count for no tenant's share of the
// handlers: see [Queue.Consume].
//
// A call whose context ends returns at once. Messages that it took meanwhile are handed back, which
// counts as no attempt.
//
// Errors: [ErrEmpty], also for a queue that does not exist; [ErrPaused]; [context.DeadlineExceeded]
// if the server did not answer within the Block; [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Read(ctx context.Context, cfg ReadConfig) (messages []Message, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Leave {
		return nil, q.end(ctx, cfg)
	}
	err = q.observe(ctx, "work", func(ctx context.Context) error {
		messages, _, err = q.read(ctx, cfg, nil)
		return err
	})
	q.ended(ctx, messages, err)
	return messages, err
}

// ended tells the hooks about a read, or offers the moment to the Enlister if there was nothing to read.
func (q *Queue) ended(ctx context.Context, messages []Message, err error) {
	if err != nil {
		if q.cfg.Enlister != nil && ctx.Err() == nil {
			q.cfg.Enlister.Enlist(ctx)
		}
		return
	}
	work := millrace.Handling{Structure: "fairqueue", Key: q.name, Size: len(messages)}
	for _, m := range messages {
		work.Age = max(work.Age, m.PickupDelay)
	}
	for _, hook := range q.cfg.Hooks {
		if reader, ok := hook.(millrace.ReadHook); ok {
			reader.OnRead(ctx, work)
		}
	}
}

// read reads, and settles deliveries in its first call. It returns their verdicts, also with an error.
func (q *Queue) read(ctx context.Context, cfg ReadConfig, settle []settlement) (messages []Message, verdicts []int, err error) {
	reader, leave := q.enter(cfg)
	defer leave()
	request := workRequest{q: q, reader: reader, max: min(cfg.Max, callBudget/q.readCost()), visibility: cfg.Visibility, sleeps: cfg.Block != 0}
	end, ask := ctx, ctx
	if cfg.Block > 0 {
		var stop, cancel context.CancelFunc
		end, stop = context.WithTimeoutCause(ctx, cfg.Block, ErrEmpty)
		defer stop()
		ask, cancel = script.Within(ctx, max(cfg.Block, shortestAsk))
		defer cancel()
	}
	request.settle = settle
	for {
		a, err := q.shared.do(ask, request)
		verdicts, request.settle = append(verdicts, a.verdicts...), nil
		switch {
		case err != nil:
			return nil, verdicts, err
		case len(a.messages) > 0:
			q.legacy.turn(len(a.messages), cfg.Max)
			return q.readMore(ask, a.messages, request, cfg.Max), verdicts, nil
		case a.again:
			continue
		}
		if q.legacy.wait(end, cfg.Max) {
			continue
		}
		switch {
		case cfg.Block == 0:
			return nil, verdicts, a.nothing()
		case ctx.Err() != nil:
			return nil, verdicts, context.Cause(ctx)
		case end.Err() != nil:
			return nil, verdicts, a.nothing()
		}
		stop := q.legacy.watch(cfg.Max)
		found, err := q.shared.sleepers.wait(end, request, a.pause, nil)
		stop()
		switch {
		case err == nil:
			q.legacy.turn(len(found.messages), cfg.Max)
			return found.messages, verdicts, nil
		case ctx.Err() != nil:
			return nil, verdicts, context.Cause(ctx)
		case end.Err() != nil:
			return nil, verdicts, a.nothing()
		}
		return nil, verdicts, err
	}
}

// readMore makes more calls until there are enough messages, or a call returns fewer than it
// may.
func (q *Queue) readMore(ctx context.Context, messages []Message, request workRequest, most int) []Message {
	request.sleeps = false
	page := request.max
	for full := len(messages) == page; full && len(messages) < most; {
		request.max = min(most-len(messages), page)
		a, err := q.shared.do(ctx, request)
		if err != nil {
			break // the caller gets the messages that are there
		}
		messages, full = append(messages, a.messages...), len(a.messages) == page
	}
	return messages
}
