package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
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
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/scatter"
	"github.com/millrace/millrace/server/internal/access"
	"github.com/millrace/millrace/tracker"
)

const (
	defaultTimeout  = 10 * time.Second
	defaultMaxBlock = time.Minute
	defaultMaxBody  = 8 << 20

	// DefaultBodyTimeout is how long a client may take to send a body.
	DefaultBodyTimeout = 30 * time.Second
)

// Config configures an API. It needs a Client.
type Config struct {
	// Client is the connection to Redis: one server, Sentinel, a cluster, or a fleet's.
	// The caller closes it.
	Client rueidis.Client

	// Counters are the servers of scattered counters; the caller closes them. Requests
	// without a shard key are spread evenly, and a repeat under the same
	// Idempotency-Key goes to the same server. Defaults to Client alone.
	Counters *scatter.Scatter

	// Prefix is the path of the API in /openapi.json, such as /millrace. The caller
	// strips it from requests, as [http.StripPrefix] does. Defaults to none.
	Prefix string

	// Timeout limits all calls to Redis of one request, besides the time that it asks
	// to wait. Defaults to 10 seconds.
	Timeout time.Duration

	// MaxBlock is the longest that a request may ask to wait for messages or for a
	// lease; /openapi.json says it. Defaults to a minute.
	MaxBlock time.Duration

	// MaxBody is the largest body of a request in bytes. Defaults to 8 MiB.
	MaxBody int64

	// Logger logs requests that failed because of Redis or of the service. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Enlister is called when a call had nothing to do. Defaults to none.
	Enlister millrace.Enlister

	// Hooks see the calls to Redis. Defaults to none.
	Hooks []millrace.Hook

	// BodyTimeout is how long a client may take to send a body. Defaults to 30 seconds.
	BodyTimeout time.Duration

	markTTL time.Duration // for tests; defaults to defaultMarkTTL
}

func (c Config) withDefaults() (Config, error) {
	if c.Client == nil {
		return c, millrace.ErrBadArgument.Errorf("an API needs a Client")
	}
	if c.Timeout < 0 || c.MaxBlock < 0 || c.MaxBody < 0 || c.BodyTimeout < 0 {
		return c, millrace.ErrBadArgument.Errorf("Timeout, MaxBlock, MaxBody and BodyTimeout cannot be negative")
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxBlock = cmp.Or(c.MaxBlock, defaultMaxBlock)
	c.MaxBody = cmp.Or(c.MaxBody, defaultMaxBody)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.markTTL = cmp.Or(c.markTTL, defaultMarkTTL)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c, nil
}

// API answers requests to /v1/ and /openapi.json. It is safe for concurrent use.
type API struct {
	cfg      Config
	mux      *http.ServeMux
	bodies   map[string]*huma.Schema    // by pattern of the operation
	lists    map[string]map[string]bool // the parameters that may be repeated, by pattern of the operation
	huma     huma.API
	document []byte // of /openapi.json
	counters *scatter.Scatter
	audit    *audit.Log

	queues   cache[queueUse, *fairqueue.Queue]
	icks     cache[ickUse, *ick.Ick]
	channels cache[ickUse, *ick.Channel]
	hashes   cache[string, *expiry.Hashes]
	pinned   cache[string, *pinned.Keys]
	trackers cache[string, *tracker.Tracker]
	answers  *pinned.Keys
	lockers  map[bool]*lease.Locker // by AllowEvictable

	background sync.WaitGroup // work that continues after an answer

	rounds   rounds
	draining context.Context //nolint:containedctx // requests that wait end with it
	drain    context.CancelFunc
}

// New returns an API without asking Redis anything. Errors are derived from [millrace.ErrBadArgument].
func New(cfg Config) (*API, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{cfg: cfg, mux: http.NewServeMux(), bodies: make(map[string]*huma.Schema), lists: make(map[string]map[string]bool), counters: cfg.Counters, audit: audit.New(cfg.Client, cfg.Logger, slog.LevelWarn), lockers: make(map[bool]*lease.Locker)}
	if a.counters == nil { // with one client of the caller's, there is nothing to close
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
	if a.answers, err = pinned.Open(context.Background(), cfg.Client, answersNamespace, pinned.Config{
		AllowEvictable: true, Logger: cfg.Logger, Hooks: cfg.Hooks, // so it asks no server
	}); err != nil {
		return nil, err
	}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.huma = a.describe()
	a.routeQueues()
	a.routeSchedules()
	a.routeIcks()
	a.routeChannels()
	a.routeLeases()
	a.routeHashes()
	a.routePinned()
	a.routeTrackers()
	a.routeCounters()
	a.routeAudit()
	return a, a.publish()
}

// Jobs returns the upkeep of stored answers. The service that has the API installs it: no
// other program knows these values.
func (a *API) Jobs() []millrace.Job { return a.answers.Jobs() }

// Drain makes waiting requests return their results so far, now and from now on. Other
// requests continue.
func (a *API) Drain() { a.drain() }

// Wait waits for work that continues after answers, at most 5 seconds and
// [Config.Timeout]. Call it when no more requests arrive.
func (a *API) Wait() { a.background.Wait() }

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	body, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), boundsKey{}, &bounds{time.Now().Add(a.cfg.Timeout), lasting, r, body}))
	r.Body = io.NopCloser(bytes.NewReader(body))
	if keys := r.Header.Values(keyHeader); len(keys) > 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		a.once(w, r, keys, body)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// bounds are the times of a request. The operation may change them.
type bounds struct {
	deadline time.Time     // of all calls to Redis; a request that waits moves it
	keep     time.Duration // for how long its answer is true

	request *http.Request // for the audit log
	body    []byte
}

type boundsKey struct{}

func boundsOf(ctx context.Context) *bounds {
	b, _ := ctx.Value(boundsKey{}).(*bounds) // set by ServeHTTP
	return b
}

// waiter is a request that may ask to wait, in a field of its body.
type waiter interface {
	wait() (field string, d time.Duration)
}

func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	a.log(r.Context(), err)
	WriteProblem(w, err)
}

// log logs an error that is not the client's.
func (a *API) log(ctx context.Context, err error) {
	if p := problemOf(err); p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		a.cfg.Logger.WarnContext(ctx, "a request failed", "code", p.Code, "error", err)
	}
}

// register adds an operation: its description, and its implementation with the deadline
// of the request.
func register[I, O any](a *API, row ops.Row, do func(context.Context, *I) (O, error)) {
	type reply struct{ Body O }
	huma.Register(a.huma, operation(row), func(ctx context.Context, in *I) (*reply, error) {
		b := boundsOf(ctx)
		if w, ok := any(in).(waiter); ok {
			field, wait := w.wait()
			if wait > a.cfg.MaxBlock {
				return nil, invalid("body."+field, "expected at most "+short(a.cfg.MaxBlock))
			}
			b.deadline = b.deadline.Add(wait)
		} else if reqid.Seeded(ctx) {
			// A request with a key is finished even if its client disconnects: the
			// answer is for the repeat.
			ctx = context.WithoutCancel(ctx)
		}
		bounded, cancel := context.WithDeadline(ctx, b.deadline)
		defer cancel()
		if err := mayDo(ctx, row, in); err != nil {
			return nil, problemOf(err)
		}
		entry := beginNote(bounded, row, in)
		out, err := do(bounded, in)
		a.note(ctx, entry, err)
		if err != nil {
			a.log(ctx, err)
			return nil, problemOf(err)
		}
		return &reply{out}, nil
	})
	if w, ok := any(new(I)).(waiter); ok {
		field, _ := w.wait()
		a.describeWait(row.Path, field)
	}
}

// on registers an operation on one structure, which open returns.
func on[S any, I hasName, O any](a *API, row ops.Row, open opener[S], do func(context.Context, S, *I) (O, error)) {
	register(a, row, func(ctx context.Context, in *I) (out O, err error) {
		structure, err := open(ctx, *in)
		if err != nil {
			return out, err
		}
		return do(ctx, structure, in)
	})
}

type hasName interface{ Structure() string }

// Named is a request about a structure. It is exported because huma reads it by
// reflection.
type Named struct {
	Name string `path:"name" doc:"Its name: 1 to 512 bytes, percent-encoded." example:"orders"`
}

// Structure returns the name.
func (n Named) Structure() string { return n.Name }

type namedWith[B any] struct {
	Named

	Body B
}

type hasBody interface{ body() any }

func (n namedWith[B]) body() any { return n.Body }

// namesOf returns a sorted list of names, and the parts that are missing. The log has the cause.
func (a *API) namesOf(ctx context.Context, list func(context.Context, rueidis.Client) iter.Seq2[string, error],
) ([]jsontype.Text, ops.Incomplete, error) {
	names, missing, err := ops.Names(list(ctx, a.cfg.Client), access.Of(ctx).Owns)
	if err != nil && missing.Incomplete != "" {
		a.cfg.Logger.WarnContext(ctx, "a list is incomplete", "error", err)
		err = nil
	}
	return names, missing, err
}

// whileServing returns a context that also ends with Drain.
func (a *API) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(a.draining, func() { cancel(errDraining) })
	return ctx, func() { stop(); cancel(nil) }
}

var errDraining = &millrace.Error{
	Code:    "unavailable",
	Message: "the service is shutting down",
	Hint:    "Repeat the request: another process may serve it.",
}

// maxCached is how many structures of a kind are cached.
const maxCached = 1000

// cache keeps structures, since goroutines that use the same structure share calls to
// Redis. The zero value works.
type cache[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]V
}

// get returns the structure of that name, and opens it first if necessary. A full cache
// drops any other structure, which its users may keep.
func (c *cache[K, V]) get(name K, open func() (V, error)) (V, error) {
	c.mu.Lock()
	v, ok := c.kept[name]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := open() // may ask Redis
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
