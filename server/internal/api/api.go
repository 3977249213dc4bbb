package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
)

const (
	// TimeoutDefault is how long what a request asks of Redis may take.
	TimeoutDefault = 10 * time.Second

	// MaxBlockDefault is how long a request may wait for something to come.
	MaxBlockDefault = time.Minute

	// MaxBodyDefault is how many bytes a body has at most.
	MaxBodyDefault = 8 << 20

	// BodyTimeoutDefault is how long a client may take over a body.
	BodyTimeoutDefault = 30 * time.Second
)

// Config is what an API works on. It needs a Client.
type Config struct {
	// Client is the way to Redis: one server, Sentinel, a cluster, or a fleet's. It
	// stays the caller's.
	Client rueidis.Client

	// Counters are the servers over which counters are scattered. It stays the
	// caller's. Where it picks servers by a hash of the shard key, which is its
	// default, requests that name none are spread evenly, and one that is repeated
	// under its Idempotency-Key goes to the server that it went to before. Defaults to
	// Client alone.
	Counters *scatter.Scatter

	// Prefix is the path below which the API lies, such as /millrace, for programs
	// that read /openapi.json. Whoever puts it there takes the prefix off requests, as
	// [http.StripPrefix] does. Defaults to none.
	Prefix string

	// Timeout is how long what a request asks of Redis may take, besides the time for
	// which it asks to wait. Defaults to [TimeoutDefault].
	Timeout time.Duration

	// MaxBlock is how long a request may wait, for messages or for a lease; one that
	// asks for more waits for so long. Defaults to [MaxBlockDefault].
	MaxBlock time.Duration

	// MaxBody is how many bytes the body of a request has at most. Defaults to
	// [MaxBodyDefault].
	MaxBody int64

	// BodyTimeout is how long a client may take over the body of its request.
	// Defaults to [BodyTimeoutDefault].
	BodyTimeout time.Duration

	// Logger is told of requests that failed because of Redis or of the service.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Enlister is told when there was nothing to do. Defaults to none.
	Enlister millrace.Enlister

	// Hooks watch the calls to Redis. Defaults to none.
	Hooks []millrace.Hook
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Client == nil:
		return c, millrace.ErrBadArgument.Errorf("an API needs a Client")
	case c.Timeout < 0 || c.MaxBlock < 0 || c.MaxBody < 0 || c.BodyTimeout < 0:
		return c, millrace.ErrBadArgument.Errorf("Timeout, MaxBlock, MaxBody and BodyTimeout cannot be negative")
	}
	if c.Timeout == 0 {
		c.Timeout = TimeoutDefault
	}
	if c.MaxBlock == 0 {
		c.MaxBlock = MaxBlockDefault
	}
	if c.MaxBody == 0 {
		c.MaxBody = MaxBodyDefault
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = BodyTimeoutDefault
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// API answers requests to /v1/ and /openapi.json. It is safe for concurrent use.
type API struct {
	cfg      Config
	mux      *http.ServeMux
	bodies   map[string]*huma.Schema // of the operations that have one, by their patterns
	huma     huma.API
	counters *scatter.Scatter

	queues  cache[queueUse, *fairqueue.Queue]
	icks    cache[ickUse, *ick.Ick]
	hashes  cache[hashSpace, *expiry.Hashes]
	answers cache[string, *pinned.Keys]
	lockers map[bool]*lease.Locker // by whether they accept a server that may evict leases

	markLife time.Duration // of the marks of requests that are under way

	behind sync.WaitGroup // what goes on behind answers

	ending context.Context //nolint:containedctx // what waits for something ends with it
	end    context.CancelFunc
}

// New returns an API. It asks nothing of Redis. Errors are derived from [millrace.ErrBadArgument].
func New(cfg Config) (*API, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{cfg: cfg, mux: http.NewServeMux(), bodies: make(map[string]*huma.Schema), counters: cfg.Counters, lockers: make(map[bool]*lease.Locker), markLife: markLifeDefault}
	if a.counters == nil { // of one client that is the caller's, there is nothing to close
		if a.counters, err = scatter.New(scatter.Clients(cfg.Client), scatter.Config{Hooks: cfg.Hooks}); err != nil {
			return nil, err
		}
	}
	for _, evictable := range []bool{false, true} {
		if a.lockers[evictable], err = lease.New(cfg.Client, lease.Config{
			AllowEvictable: evictable, Logger: cfg.Logger, Enlister: cfg.Enlister, Hooks: cfg.Hooks,
		}); err != nil {
			return nil, err
		}
	}
	a.ending, a.end = context.WithCancel(context.Background())
	a.huma = a.describe()
	a.routeQueues()
	a.routeMessages()
	a.routeBrowse()
	a.routeIcks()
	a.routeParked()
	a.routeLeases()
	a.routeHashes()
	a.routeCounters()
	return a, a.publish()
}

// Drain has requests that wait for something end with what they have, now and from
// now on. Others go on. It cannot be taken back.
func (a *API) Drain() { a.end() }

// Wait waits for what goes on behind answers that were given, which takes 5 seconds
// and [Config.Timeout] at most. It is for the end, when no requests come any more.
func (a *API) Wait() { a.behind.Wait() }

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	body, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	until := time.Now().Add(a.cfg.Timeout)
	r = withBody(r.WithContext(context.WithValue(r.Context(), untilKey{}, &until)), body)
	if keys := r.Header.Values(keyHeader); len(keys) > 0 && r.Method != http.MethodGet {
		a.once(w, r, keys, body)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// untilKey is the key of a context's untilOf.
type untilKey struct{}

// untilOf returns until when Redis may be asked for a request, over all that is asked.
// What waits puts it off.
func untilOf(ctx context.Context) *time.Time {
	until, _ := ctx.Value(untilKey{}).(*time.Time) // ServeHTTP has put it there
	return until
}

// refuse answers a request that gets no further.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	a.log(r.Context(), err)
	WriteProblem(w, r, err)
}

// log tells of an error that the client did not make.
func (a *API) log(ctx context.Context, err error) {
	if p := problemOf(err); p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		a.cfg.Logger.WarnContext(ctx, "a request failed", "code", p.Code, "error", err)
	}
}

// register adds an operation: its description, and what does it within the time
// that there is for it.
func register[I, O any](a *API, op huma.Operation, do func(context.Context, *I) (O, error)) {
	type reply struct{ Body O }
	huma.Register(a.huma, operation(op), func(ctx context.Context, in *I) (*reply, error) {
		until := untilOf(ctx)
		if w, ok := any(in).(waiter); ok {
			*until = until.Add(min(w.wait(), a.cfg.MaxBlock))
		} else if reqid.Seeded(ctx) {
			// What has a key is done to its end, also if its client hangs up half way, and
			// is answered then when the client asks again.
			ctx = context.WithoutCancel(ctx)
		}
		bounded, cancel := context.WithDeadline(ctx, *until)
		defer cancel()
		out, err := do(bounded, in)
		if err != nil {
			a.log(ctx, err)
			return nil, problemOf(err)
		}
		return &reply{out}, nil
	})
}

// waiter is a request that asks to wait for something.
type waiter interface{ wait() time.Duration }

// whileServing returns a context that also ends with Drain.
func (a *API) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.ending, func() { cancel(errDraining) })
	return ctx, func() { stop(); cancel(nil) }
}

var errDraining = &millrace.Error{
	Code:    "unavailable",
	Message: "the service ends",
	Hint:    "Repeat the request: another one may serve.",
}

// principalKey is the key of a context's principal.
type principalKey struct{}

// WithPrincipal returns a context that says who makes a request, for a handler in
// front of the API that knows. Each principal has Idempotency-Keys of its own.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// Principal returns who makes a request, as WithPrincipal has it; empty if nobody
// said.
func Principal(ctx context.Context) string {
	name, _ := ctx.Value(principalKey{}).(string)
	return name
}

// maxCached is how many structures of a kind are kept at hand.
const maxCached = 1000

// cache keeps structures at hand, since goroutines that use the same one share its
// calls to Redis. The zero value works.
type cache[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]V
}

// get returns the structure of that name, which open makes if need be. When there
// are too many, any other one is forgotten; whoever uses it goes on.
func (c *cache[K, V]) get(name K, open func() (V, error)) (V, error) {
	c.mu.Lock()
	v, ok := c.kept[name]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := open() // which may ask Redis
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.kept[name]; ok {
		return first, nil
	}
	if c.kept == nil {
		c.kept = make(map[K]V)
	}
	for other := range c.kept {
		if len(c.kept) < maxCached {
			break
		}
		delete(c.kept, other)
	}
	c.kept[name] = v
	return v, nil
}
