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
	maxName = 200 // bytes; the name of the lease has both
	maxKey  = 300

	// prefix begins the names of namespaces and leases.
	prefix = "fetch/"

	// leaseTTL is how long others wait for a holder that died. A living holder renews.
	leaseTTL = 5 * time.Second

	// redisTimeout bounds one call to Redis.
	redisTimeout = time.Second
)

// Cache is a set of computed values. It is safe for concurrent use, and needs no closing.
type Cache struct {
	name   string
	cfg    Config
	keys   *pinned.Keys
	leases *lease.Locker
	holder string // this process, as metadata of leases

	hold, timeout time.Duration // leaseTTL and redisTimeout

	outage *outage
	memory *memory
	random func() float64
	full   atomic.Bool   // Redis was out of memory at the last write
	slots  chan struct{} // for computations while Redis does not answer

	mu      sync.Mutex
	flights map[string]*flight // by key; new callers join them

	outcomes map[Outcome]*atomic.Uint64 // calls by outcome; all are there
	loads    atomic.Uint64
	early    atomic.Uint64
}

// Config has the settings of a [Cache]. The zero value works.
type Config struct {
	// TTL is how long a value is fresh at most, by the server's clock, in whole milliseconds;
	// see Jitter. Defaults to 5 minutes.
	TTL time.Duration

	// Jitter is the largest part of TTL by which a value expires earlier, at random: it is
	// fresh for at least TTL x (1 - Jitter), so that values stored together do not expire
	// together. Defaults to 0.1; below 0, none.
	Jitter float64

	// Early controls how early a random reader triggers a new computation of a value that is
	// still fresh, in the second half of its TTL: the likelier, the nearer its end and the
	// longer the last load took. Readers get the old value without waiting. It is for
	// keys that are read all the time. Defaults to 1; 2 is twice as early; below 0, never.
	Early float64

	// Stale is how long after its TTL the old value is still returned, while a new one is
	// computed or if that fails. Defaults to 0, not at all.
	Stale time.Duration

	// Negative is how long the cache remembers that a load returned [millrace.ErrNotFound],
	// against repeated requests for missing values. A value that is created meanwhile is
	// found later, or after Forget. Defaults to 5 s, or to TTL if that is less; below 0, not
	// at all.
	Negative time.Duration

	// Errors is how long Redis and this process remember that a load failed: callers get the
	// old value or the error, and no process computes.
	// Defaults to 1 s; below 0, not at all.
	Errors time.Duration

	// Away is how long this process returns a value that it remembers while Redis does not
	// answer, before one caller computes it again; the others get the old one until then. No
	// value is returned for longer than TTL and Stale, nor after [Cache.Forget] in this
	// process. It protects a database that cannot carry the load of Redis. Defaults to 10 s,
	// or to TTL if that is less; below 0, one caller computes at once.
	Away time.Duration

	// Memory is the number of bytes of recently used values and errors that this process
	// remembers for Away. A value of more than a sixteenth of it is not remembered. Defaults
	// to 16 MiB; below 0, nothing is remembered, not even errors while Redis does not answer.
	Memory int

	// Timeout ends the context of a load. Defaults to 30 s.
	Timeout time.Duration

	// Concurrency is the number of concurrent loads in this process while Redis does not
	// answer; other callers wait. A nested load of the same cache shares the place of the
	// outer one. Defaults to 16.
	Concurrency int

	// AllowEvictable accepts a server whose maxmemory-policy may evict any key: values may
	// disappear early, and be computed twice. Defaults to false: opening fails with
	// millrace.ErrEvictable.
	AllowEvictable bool

	// Logger reports stale values after failed loads, panics, and once each time that Redis
	// does not answer or is full. Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is notified after each [Hit] and [Negative]. Defaults to none.
	Enlister millrace.Enlister

	// Hooks observe the calls to Redis, and each load as the run of a handler of the
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
	c.Logger = cmp.Or(c.Logger, slog.Default())
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

// Open returns the cache of that name: 1 to 200 bytes without braces, slashes and control
// characters. It asks Redis for its eviction policy; no answer is no error. Errors:
// [millrace.ErrBadName], [millrace.ErrBadArgument], [millrace.ErrEvictable].
func Open(ctx context.Context, client rueidis.Client, name string, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cmp.Or(checkName(name), cfg.check()); err != nil {
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
	outcomes := make(map[Outcome]*atomic.Uint64)
	for _, o := range []Outcome{Failed, Hit, Negative, Stale, Miss, Waited, Bypass, Remembered} {
		outcomes[o] = new(atomic.Uint64)
	}
	return &Cache{
		name: name, cfg: cfg, keys: keys, leases: leases,
		holder: fmt.Sprintf("%s, process %d", host, os.Getpid()),
		hold:   leaseTTL, timeout: redisTimeout,
		outage:  newOutage(client),
		memory:  newMemory(cfg.Memory),
		random:  rand.Float64,
		slots:   make(chan struct{}, cfg.Concurrency),
		flights: make(map[string]*flight),

		outcomes: outcomes,
	}, nil
}

// Name returns the cache's name.
func (c *Cache) Name() string { return c.name }

// Jobs returns the job that frees the memory of expired values. Each stored value does so, too;
// the job is for caches with less and less traffic.
func (c *Cache) Jobs() []millrace.Job { return c.keys.Jobs()[:1] }

// leaseName names the lease of a computation. Names of caches have no slash, so no two caches
// share a lease.
func (c *Cache) leaseName(key string) string { return prefix + c.name + "/" + key }

func checkName(name string) error {
	if strings.Contains(name, "/") {
		return errName.Errorf("the name of a cache has a slash: %q", name)
	}
	return names.Check(errName, "name of a cache", name, maxName)
}

func checkKey(key string) error { return names.Check(errName, "key", key, maxKey) }

// Outcome is how a call got its result.
type Outcome string

// The outcomes; see the diagram of the package.
const (
	Failed     Outcome = "failed"     // there is only an error
	Hit        Outcome = "hit"        // a fresh value was stored
	Negative   Outcome = "negative"   // it was stored that there is none: the error is millrace.ErrNotFound
	Stale      Outcome = "stale"      // an old value was stored, and another call computes a new one, or that failed
	Miss       Outcome = "miss"       // this call computed
	Waited     Outcome = "waited"     // another call computed, and this one waited
	Bypass     Outcome = "bypass"     // this call, or one that it waited for, computed without Redis
	Remembered Outcome = "remembered" // Redis does not answer, and this process remembered the result
)

// Result says where a value came from.
type Result struct {
	Outcome Outcome

	// Age is the time since the value was stored, by the server's clock; 0 if it was computed
	// for this call.
	Age time.Duration
}

// Stats counts the calls of a [Cache] since it was opened, in this process. Each call counts once, by
// its outcome; one whose load returned [millrace.ErrNotFound] is a miss, or waited.
type Stats struct {
	Hits, Negatives, Stale, Misses, Waited, Bypassed, Remembered, Failed uint64

	Loads uint64 // loads that began
	Early uint64 // early refreshes that began
}

// Stats returns the counts so far.
func (c *Cache) Stats() Stats {
	count := func(o Outcome) uint64 { return c.outcomes[o].Load() }
	return Stats{
		Hits: count(Hit), Negatives: count(Negative), Stale: count(Stale), Misses: count(Miss),
		Waited: count(Waited), Bypassed: count(Bypass), Remembered: count(Remembered), Failed: count(Failed),
		Loads: c.loads.Load(), Early: c.early.Load(),
	}
}
