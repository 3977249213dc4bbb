package fetch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

const (
	// maxName and maxKey are the longest names in bytes: the lease's name holds both.
	maxName = 200
	maxKey  = 300

	// prefix is what the names of namespaces and leases begin with.
	prefix = "fetch/"

	// hold is for how long a lease is taken and renewed: as long as others wait for
	// a holder that died.
	hold = 5 * time.Second

	// patience is for how long one question to Redis may take before it is one that
	// is not answered.
	patience = time.Second
)

// Cache is one set of values. It is safe for concurrent use, and needs no closing.
type Cache struct {
	name   string
	cfg    Config
	keys   *pinned.Keys
	leases *lease.Locker
	holder string // who this process is, for people who look at leases

	hold, patience time.Duration

	outage *outage
	memory *memory
	random func() float64
	full   atomic.Bool   // whether Redis refuses values for want of memory, as last heard
	slots  chan struct{} // one for each computation that runs while Redis does not answer

	mu      sync.Mutex
	flights map[string]*flight // by key: who comes now joins

	outcomes [outcomes]atomic.Uint64
	loads    atomic.Uint64
	early    atomic.Uint64
}

// Config is how a cache behaves. The zero value works.
type Config struct {
	// TTL is for how long a value is fresh at most, by the server's clock, in whole
	// milliseconds; see Jitter. Defaults to 5 minutes.
	TTL time.Duration

	// Jitter is the share of TTL by which a value's time may be shorter: it is fresh for
	// TTL x (1 - Jitter) at least, drawn for each. For those who fill a cache at once, at
	// a deployment, and do not want it to run out at once. Defaults to 0.1; below 0, all
	// are fresh for TTL.
	Jitter float64

	// Early is how eagerly a value is computed anew before it is old, in the second half of its
	// time, by a reader that is drawn: the likelier, the nearer the end and the longer the
	// last load took. The readers have the value that there is, and nobody waits. For
	// those with keys that are read all the time, none of whose readers should wait.
	// Defaults to 1; 2 is twice as early; below 0, never.
	Early float64

	// Stale is for how long after its time the old value is given, while somebody
	// computes a new one or when that fails. For those who would rather show what is old
	// than nothing. Defaults to 0, not at all.
	Stale time.Duration

	// Negative is for how long it is remembered that a load returned [ErrNone], for those
	// who are asked for what does not exist, by mistake or on purpose. What comes into
	// being meanwhile is found later, or after Forget. Defaults to 5 s, or to TTL if that
	// is less; below 0, not at all.
	Negative time.Duration

	// Errors is for how long it is remembered, in Redis and in this process, that a load
	// failed: who asks meanwhile has the old value or the error, and nobody computes. For
	// those whose database is not helped by every process trying in turn. Defaults to
	// 1 s; below 0, not at all.
	Errors time.Duration

	// Away is for how long this process gives a value that it remembers, while Redis does
	// not answer, before one caller computes it again; the others have it until that is
	// done. None is given for longer than TTL and Stale, nor after [Cache.Forget] in this
	// process. For those whose database cannot carry all that Redis does. Defaults to
	// 10 s, or to TTL if that is less; below 0, one caller computes at once.
	Away time.Duration

	// Memory is how many bytes of values and errors this process remembers for that, those
	// that were used last. A value of more than a sixteenth of it is not remembered.
	// Defaults to 16 MiB; below 0, none, not even of errors while Redis does not answer.
	Memory int

	// Timeout ends the context of a load. Defaults to 30 s.
	Timeout time.Duration

	// Concurrency is how many computations run at once in this process while Redis
	// does not answer; other callers wait for their turn. What a load fetches in
	// turn from the same cache needs no place of its own. Defaults to 16.
	Concurrency int

	// AllowEvictable accepts a server whose maxmemory-policy lets it evict any key:
	// values may then go before their time, and be computed twice. Defaults to off:
	// opening fails with millrace.ErrEvictable.
	AllowEvictable bool

	// Logger is told when old values are given because loads fail, of panics, and
	// once of each time that Redis does not answer or is full. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Enlister is told about each [Hit] and [Negative], once the value is there.
	// Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls to Redis, and each load as the run of a handler of the
	// structure "fetch". Defaults to none.
	Hooks []millrace.Hook
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 5*time.Minute)
	c.Jitter = cmp.Or(c.Jitter, 0.1)
	c.Early = cmp.Or(c.Early, 1)
	c.Negative = cmp.Or(c.Negative, min(5*time.Second, c.TTL))
	c.Errors = cmp.Or(c.Errors, time.Second)
	c.Away = cmp.Or(c.Away, min(10*time.Second, c.TTL))
	c.Memory = cmp.Or(c.Memory, 16<<20)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.TTL < time.Millisecond:
		return millrace.ErrBadArgument.Errorf("TTL is %s, less than a millisecond", c.TTL)
	case c.Stale < 0:
		return millrace.ErrBadArgument.Errorf("Stale is negative: %s", c.Stale)
	case c.Jitter >= 1 || math.IsNaN(c.Jitter):
		return millrace.ErrBadArgument.Errorf("Jitter is %v, not less than 1", c.Jitter)
	case math.IsNaN(c.Early) || math.IsInf(c.Early, 0):
		return millrace.ErrBadArgument.Errorf("Early is %v, no number", c.Early)
	case c.Negative > 0 && c.Negative < time.Millisecond:
		return millrace.ErrBadArgument.Errorf("Negative is %s, less than a millisecond", c.Negative)
	case c.Errors > 0 && c.Errors < time.Millisecond:
		return millrace.ErrBadArgument.Errorf("Errors is %s, less than a millisecond", c.Errors)
	case c.Timeout < 0:
		return millrace.ErrBadArgument.Errorf("Timeout is negative: %s", c.Timeout)
	case c.Concurrency < 0:
		return millrace.ErrBadArgument.Errorf("Concurrency is negative: %d", c.Concurrency)
	}
	return nil
}

// Open returns the cache of that name; see [CheckName]. It asks Redis what it may
// evict. That Redis does not answer is no error. Errors: [millrace.ErrBadName], [millrace.ErrBadArgument], and
// millrace.ErrEvictable.
func Open(ctx context.Context, client rueidis.Client, name string, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cmp.Or(CheckName(name), cfg.check()); err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With("cache", name)
	keys, err := pinned.Open(ctx, client, prefix+name, pinned.Config{
		AllowEvictable: cfg.AllowEvictable, Logger: cfg.Logger, Hooks: cfg.Hooks,
	})
	if err != nil {
		return nil, err
	}
	leases, err := lease.New(client, lease.Config{
		AllowEvictable: cfg.AllowEvictable, Logger: cfg.Logger, Hooks: cfg.Hooks,
	})
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return &Cache{
		name: name, cfg: cfg, keys: keys, leases: leases,
		holder: fmt.Sprintf("%s, process %d", host, os.Getpid()),
		hold:   hold, patience: patience,
		outage:  newOutage(client),
		memory:  newMemory(cfg.Memory),
		random:  rand.Float64,
		slots:   make(chan struct{}, cfg.Concurrency),
		flights: make(map[string]*flight),
	}, nil
}

// Name returns the cache's name.
func (c *Cache) Name() string { return c.name }

// ReapJob returns the job that removes values whose time is over. They are gone
// without it, and each value that is stored makes room; it is for caches in which
// less and less is asked for.
func (c *Cache) ReapJob() millrace.Job { return c.keys.Jobs()[0] }

// leaseName names the lease for the computation of a key. A cache's name has no
// slash, so no two caches share one.
func (c *Cache) leaseName(key string) string { return prefix + c.name + "/" + key }

// CheckName returns the [millrace.ErrBadName] with which [Open] refuses that name, and nil for
// one of 1 to 200 bytes without braces, slashes and control characters.
func CheckName(name string) error {
	if strings.Contains(name, "/") {
		return errName.Errorf("the name of a cache has a slash: %q", name)
	}
	return names.Check(errName, "name of a cache", name, maxName)
}

// CheckKey returns the [millrace.ErrBadName] with which every call refuses that key, and nil
// for one of 1 to 300 bytes without braces and control characters.
func CheckKey(key string) error { return names.Check(errName, "key", key, maxKey) }
