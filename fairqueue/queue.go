package fairqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// PerTenantDefault is how many streams a tenant has, in a queue with Streams. Two
	// tenants of 64 streams share all of them once in 635,376 pairs.
	PerTenantDefault = 4

	// MaxStreams is how many streams a queue has at most.
	MaxStreams = 1024

	// MaxAttemptsDefault is after how many deliveries a message is dead in a queue
	// that does not say.
	MaxAttemptsDefault = 5

	// DedupeWindowDefault is for how long a dedupe id counts.
	DedupeWindowDefault = 5 * time.Minute

	// MaxMessage is how many bytes a message has at most, with its tenant and headers.
	MaxMessage = 1 << 20

	// chunk is how many messages are written all or none, and how many a caller reads or looks
	// at in one go.
	chunk = 1000

	// page is how many messages or receipts any other call takes, and costly how many that
	// cost more: no such call takes the server 5 ms.
	page   = 120
	costly = 80
)

// Queue is a multi-tenant queue. All of it lies in Redis; a Queue is safe for
// concurrent use, and several on one name are one queue.
type Queue struct {
	name   string
	cfg    Config
	client rueidis.Client
	shared *dispatcher
	run    *script.Runner // the dispatcher's
	entry  registry.Entry

	mu          sync.Mutex
	streams     streams   // as last seen
	legacyEmpty time.Time // when the legacy stream was last found empty
}

// Config is how a queue is used by this process. The zero value works.
type Config struct {
	// Streams makes the flows of a new queue so many streams, of which each tenant has
	// a few, instead of one flow for each tenant: for names of tenants that others
	// choose without end. At most [MaxStreams]. A queue that exists keeps what it has
	// until [Queue.Resize]. Defaults to 0, a flow for each tenant.
	Streams int

	// PerTenant is how many of the Streams a tenant has; more than Streams are as many.
	// Defaults to [PerTenantDefault].
	PerTenant int

	// MaxAttempts is after how many deliveries that were not acknowledged a
	// message is dead. A writer stores it in the queue, for those that do not say.
	// Defaults to what is stored, and to [MaxAttemptsDefault] in a new queue.
	MaxAttempts int

	// DedupeWindow is for how long a dedupe id counts after the write that brought
	// it; in milliseconds at the finest. Defaults to [DedupeWindowDefault].
	DedupeWindow time.Duration

	// IdleExpiry is after how long without a write or a read an empty queue goes
	// whole, all keys together: one in which nothing waits, is in flight, set
	// aside or dead. [TendJob] does it. Stored with each write; in milliseconds at
	// the finest. Defaults to 0, never.
	IdleExpiry time.Duration

	// ExpireFull lets it go with all that is in it. Defaults to off.
	ExpireFull bool

	// Legacy is a stream that the queue replaces. Defaults to none.
	Legacy Legacy

	// Gzip compresses bodies of at least so many bytes, if that makes them
	// smaller. Readers need no setting. Defaults to 0, never.
	Gzip int

	// Logger is told of trouble with the server and of handlers that fail or panic.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is told when a read finds nothing. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls and handlers, and may add headers to what is
	// written. Defaults to none.
	Hooks []millrace.Hook
}

func (c Config) withDefaults() (Config, error) {
	bad := millrace.ErrBadArgument
	switch {
	case c.Streams < 0 || c.Streams > MaxStreams:
		return c, bad.Errorf("a queue has up to %d streams, not %d", MaxStreams, c.Streams)
	case c.PerTenant < 0:
		return c, bad.Errorf("PerTenant is negative: %d", c.PerTenant)
	case c.PerTenant > 0 && c.Streams == 0:
		return c, bad.Errorf("PerTenant is %d, and there are no Streams", c.PerTenant)
	case c.MaxAttempts < 0:
		return c, bad.Errorf("MaxAttempts is negative: %d", c.MaxAttempts)
	case c.DedupeWindow < 0:
		return c, bad.Errorf("DedupeWindow is negative: %s", c.DedupeWindow)
	case c.IdleExpiry < 0:
		return c, bad.Errorf("IdleExpiry is negative: %s", c.IdleExpiry)
	case c.ExpireFull && c.IdleExpiry == 0:
		return c, bad.Errorf("ExpireFull says how a queue goes, but IdleExpiry does not say when")
	case c.Legacy.Stream != "" && c.Legacy.Group == "":
		return c, bad.Errorf("Legacy has no Group: which one have the readers of %q used?", c.Legacy.Stream)
	case c.Gzip < 0:
		return c, bad.Errorf("Gzip is negative: %d", c.Gzip)
	}
	if c.PerTenant == 0 {
		c.PerTenant = PerTenantDefault
	}
	c.PerTenant = min(c.PerTenant, c.Streams)
	if c.DedupeWindow == 0 {
		c.DedupeWindow = DedupeWindowDefault
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

// New returns the queue of that name. It does not ask Redis: a queue begins with
// its first write. Errors are derived from [millrace.ErrBadName] and
// [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Queue, error) {
	if err := CheckName(name); err != nil {
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

// known returns what is known of the queue's streams.
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
