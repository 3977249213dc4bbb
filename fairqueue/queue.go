package fairqueue

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// StreamsDefault is how many streams a new queue has.
	StreamsDefault = 64

	// PerTenantDefault is how many of them a tenant has. Two tenants share all of
	// them once in 635,376 pairs.
	PerTenantDefault = 4

	// MaxStreams is how many streams a queue has at most.
	MaxStreams = 1024

	// MaxAttemptsDefault is after how many deliveries a message is dead in a queue
	// that does not say.
	MaxAttemptsDefault = 5

	// DedupeWindowDefault is for how long a dedupe id counts.
	DedupeWindowDefault = 5 * time.Minute

	// GroupDefault is the consumer group of a new queue's streams.
	GroupDefault = "millrace"

	// chunk is how many messages or receipts one script call takes at most.
	chunk = 1000
)

// Queue is a multi-tenant queue. All of it lies in Redis; a Queue is safe for
// concurrent use, and several on one name are one queue.
type Queue struct {
	name   string
	cfg    Config
	run    script.Runner
	desk   *desk
	writes joint[draft, Written]
	acks   joint[string, int64]
	entry  registry.Entry

	mu          sync.Mutex
	shape       shape     // as last seen
	legacyEmpty time.Time // when the legacy stream was last found empty
}

// Config is how a queue is used by this process. The zero value works.
type Config struct {
	// Streams is how many streams the queue has if it does not exist yet, from 1
	// to [MaxStreams]; one that exists keeps its own until [Queue.Resize].
	// Defaults to [StreamsDefault].
	Streams int

	// PerTenant is how many of them a tenant has, in a queue that does not exist
	// yet. More than Streams are as many as Streams. Defaults to
	// [PerTenantDefault].
	PerTenant int

	// Group is the name of the consumer group in a queue that does not exist yet.
	// Defaults to [GroupDefault].
	Group string

	// Consumer names this process in the group's pending lists, for people who
	// look there. Defaults to the host's name and the process's number.
	Consumer string

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
	switch {
	case c.Streams < 0 || c.Streams > MaxStreams:
		return c, millrace.ErrBadArgument.Saying("a queue has 1 to %d streams, not %d", MaxStreams, c.Streams)
	case c.PerTenant < 0:
		return c, millrace.ErrBadArgument.Saying("PerTenant is negative: %d", c.PerTenant)
	case c.MaxAttempts < 0:
		return c, millrace.ErrBadArgument.Saying("MaxAttempts is negative: %d", c.MaxAttempts)
	case c.DedupeWindow < 0:
		return c, millrace.ErrBadArgument.Saying("DedupeWindow is negative: %s", c.DedupeWindow)
	case c.IdleExpiry < 0:
		return c, millrace.ErrBadArgument.Saying("IdleExpiry is negative: %s", c.IdleExpiry)
	case c.ExpireFull && c.IdleExpiry == 0:
		return c, millrace.ErrBadArgument.Saying("ExpireFull says how a queue goes, but IdleExpiry does not say when")
	case c.Legacy.Stream != "" && c.Legacy.Group == "":
		return c, millrace.ErrBadArgument.Saying("Legacy has no Group: which one have the readers of %q used?", c.Legacy.Stream)
	case c.Gzip < 0:
		return c, millrace.ErrBadArgument.Saying("Gzip is negative: %d", c.Gzip)
	}
	if c.Streams == 0 {
		c.Streams = StreamsDefault
	}
	if c.PerTenant == 0 {
		c.PerTenant = PerTenantDefault
	}
	c.PerTenant = min(c.PerTenant, c.Streams)
	if c.Group == "" {
		c.Group = GroupDefault
	}
	if c.Consumer == "" {
		host, _ := os.Hostname() // without a name it is the number alone
		c.Consumer = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
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

// shape is how many streams writers use, and how many of them a tenant has.
type shape struct{ streams, perTenant int }

// New returns the queue of that name. It does not ask Redis: a queue begins with
// its first write. Errors are derived from [millrace.ErrBadName] and [millrace.ErrBadArgument].
func New(client rueidis.Client, name string, cfg Config) (*Queue, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	q := &Queue{
		name:  name,
		cfg:   cfg,
		run:   script.Runner{Client: client, Scripts: library, Hooks: cfg.Hooks},
		shape: shape{streams: cfg.Streams, perTenant: cfg.PerTenant},
	}
	q.entry.Enter(client, registry.Queue, name, cfg.Logger)
	q.desk = newDesk(q)
	q.writes.call = q.write
	q.acks.call = q.ack
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// call runs a script on the queue.
func (q *Queue) call(ctx context.Context, name string, args ...string) (*script.Reply, error) {
	return q.run.Run(ctx, name, baseKey(q.name), args...)
}

// count is call for a script that answers a number.
func (q *Queue) count(ctx context.Context, name string, args ...string) (int, error) {
	reply, err := q.call(ctx, name, args...)
	if err != nil {
		return 0, err
	}
	n := reply.Int()
	return int(n), reply.Err()
}

// integers is call for a script that answers a list of them.
func (q *Queue) integers(ctx context.Context, name string, args ...string) ([]int64, error) {
	reply, err := q.call(ctx, name, args...)
	if err != nil {
		return nil, err
	}
	list := make([]int64, 0, reply.Len())
	for reply.More() {
		list = append(list, reply.Int())
	}
	return list, reply.Err()
}

// shaped returns what is known of the queue's shape.
func (q *Queue) shaped() shape {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shape
}

func (q *Queue) reshape(s shape) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shape = s
}
