package fairqueue

import (
	"context"
	"embed"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/redis/script"
)

//go:embed *.lua
var folder embed.FS

// library holds the scripts of a queue.
var library = script.Load(folder, "K:")

// Defaults and bounds.
const (
	defaultPerTenant    = 4 // two tenants of 64 streams share all of them once in 635,376 pairs
	defaultMaxAttempts  = 5
	defaultDedupeWindow = 5 * time.Minute
	defaultVisibility   = 30 * time.Second
	defaultConcurrency  = 10
	defaultDrain        = 30 * time.Second

	maxStreams     = 1024
	maxMessage     = 1 << 20 // bytes, with tenant and headers
	maxRead        = 1000    // messages of a Read, of a page of Browse
	maxConcurrency = 1000
	minVisibility  = 10 * time.Millisecond
	maxVisibility  = 12 * time.Hour
)

// Bounds of dead messages, unless [DeadLetters.Keep] sets others.
const (
	DefaultDeadMost = queuestats.DefaultDeadMost
	DefaultDeadAge  = queuestats.DefaultDeadAge
)

// A call takes the server one or two milliseconds, however large the queue is. So its cost
// is bounded. The unit is an acknowledgement, about 10 us.
const (
	callBudget = 100
	streamCost = 2 // a message that is read from streams, or browsed
	limitCost  = 2 // a message that is read where limits count deliveries
	heavyCost  = 3 // one that is given back, cancelled, redriven or purged

	page      = callBudget / streamCost // of Browse
	heavyPage = callBudget / heavyCost
	ackPage   = callBudget // receipts that are acknowledged or extended
)

// Queue is a queue of many tenants. All of it lies in Redis: several Queues of one name are
// one queue. A Queue is safe for concurrent use.
type Queue struct {
	name   string
	cfg    Config
	client rueidis.Client
	shared *dispatcher
	run    *script.Runner // the dispatcher's
	entry  registry.Entry
	legacy *legacyMover

	mu      sync.Mutex
	streams streams // as last seen
}

// Config configures how this process uses a queue. The zero value works.
type Config struct {
	// Streams divides a new queue into this many streams, of which each tenant has a
	// few, instead of a flow for each tenant. Set it if strangers choose names of
	// tenants. There are no limits by tenant then. At most 1,024. A queue that exists
	// keeps its setting until [Queue.Resize]. Defaults to 0, a flow for each tenant.
	Streams int

	// PerTenant is how many of the Streams a tenant has, at most all. A write counts
	// the messages in each of them. Defaults to 4.
	PerTenant int

	// MaxAttempts is the number of deliveries without an acknowledgement after which a message
	// is dead. The queue stores the setting of its writers, for processes that do not set it.
	// Defaults to the stored setting, else 5.
	MaxAttempts int

	// DedupeWindow is how long a dedupe id counts after its write, in whole
	// milliseconds. Defaults to 5 minutes.
	DedupeWindow time.Duration

	// IdleExpiry is the time without a write or a read after which an empty queue is removed:
	// one in which nothing waits, is in flight, delayed or dead, no dedupe id counts, no
	// source has a position, and which is not paused and has no limits, schedules and
	// bounds of dead messages that were set. Upkeep does it: see [Jobs]. The queue stores the setting of
	// its writers. In whole milliseconds. Defaults to 0, never.
	IdleExpiry time.Duration

	// ExpireFull removes the idle queue with all its messages. Defaults to off.
	ExpireFull bool

	// Legacy has the streams that the queue replaces. Defaults to none.
	Legacy []Legacy

	// Gzip compresses bodies of at least this many bytes, if that makes them smaller.
	// Readers need no setting. Defaults to 0, never.
	Gzip int

	// Logger gets trouble with the server, and handlers that fail or panic. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Enlister is called when a read finds nothing. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch calls and handlers, and may add headers to messages. Defaults to none.
	Hooks []millrace.Hook
}

func (c Config) withDefaults() (Config, error) {
	bad := millrace.ErrBadArgument
	switch {
	case c.Streams < 0 || c.Streams > maxStreams:
		return c, bad.Errorf("a queue has up to %d streams, not %d", maxStreams, c.Streams)
	case c.PerTenant < 0:
		return c, bad.Errorf("PerTenant is negative: %d", c.PerTenant)
	case c.PerTenant > 0 && c.Streams == 0:
		return c, bad.Errorf("PerTenant is %d, but Streams is 0", c.PerTenant)
	case c.MaxAttempts < 0:
		return c, bad.Errorf("MaxAttempts is negative: %d", c.MaxAttempts)
	case c.DedupeWindow < 0:
		return c, bad.Errorf("DedupeWindow is negative: %s", c.DedupeWindow)
	case c.IdleExpiry < 0:
		return c, bad.Errorf("IdleExpiry is negative: %s", c.IdleExpiry)
	case c.ExpireFull && c.IdleExpiry == 0:
		return c, bad.Errorf("ExpireFull is set, but IdleExpiry is 0")
	case c.Gzip < 0:
		return c, bad.Errorf("Gzip is negative: %d", c.Gzip)
	}
	for _, l := range c.Legacy {
		if err := l.check(); err != nil {
			return c, err
		}
	}
	if c.PerTenant == 0 {
		c.PerTenant = defaultPerTenant
	}
	c.PerTenant = min(c.PerTenant, c.Streams)
	if c.DedupeWindow == 0 {
		c.DedupeWindow = defaultDedupeWindow
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// expiry is IdleExpiry as scripts take it.
func (c Config) expiry() string {
	if c.ExpireFull {
		return millis(c.IdleExpiry) + "!"
	}
	return millis(c.IdleExpiry)
}

// New returns the queue of a name. It does not ask Redis: the first write creates the queue.
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Queue, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	shared := dispatcherOf(client, name)
	q := &Queue{
		name: name, cfg: cfg, client: client, shared: shared, run: &shared.run,
		streams: streams{count: cfg.Streams, perTenant: cfg.PerTenant},
	}
	q.legacy = newLegacyMover(q)
	q.entry.Enter(client, registry.Queue, name, cfg.Logger)
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// call runs a script on the queue, for one caller.
func (q *Queue) call(ctx context.Context, name string, args ...string) (*script.Reply, error) {
	var reply *script.Reply
	err := q.observe(ctx, name, func(ctx context.Context) (err error) {
		reply, err = q.run.Run(ctx, name, baseKey(q.name), args...)
		return err
	})
	return reply, err
}

// observe calls do between the hooks that watch calls.
func (q *Queue) observe(ctx context.Context, name string, do func(context.Context) error) (err error) {
	ctx, ended := script.Watch(ctx, q.cfg.Hooks, millrace.Call{Script: "fairqueue." + name, Key: baseKey(q.name), Try: 1})
	defer func() { ended(err) }()
	return do(ctx)
}

// readCost is the server's cost of a message that is read: finding the next one of a stream
// takes longer.
func (q *Queue) readCost() int {
	if q.known().count > 0 {
		return streamCost
	}
	return 1
}

// known returns the queue's streams as last seen.
func (q *Queue) known() streams {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.streams
}

func (q *Queue) learn(s streams) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.streams = s
}
